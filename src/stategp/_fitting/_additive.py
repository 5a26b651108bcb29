"""An additive model: what its methods are given, and the posterior they make."""

import dataclasses

import jax
import numpy as np

from stategp._data import Observed, Table
from stategp._fitting._series import unpadded
from stategp._fitting._settings import Settings
from stategp._fitting._task import Task, check_finite, larger_kernels
from stategp._inference import (
    FitResult,
    Layout,
    Limits,
    Q,
    additive_scales,
    averages,
    lay_out,
    search_limits,
)
from stategp._models import GP, AdditiveGP
from stategp._posteriors import AdditivePosterior, Chain, Training
from stategp._runtime import Progress
from stategp.chain import PairMarginals, Sites
from stategp.likelihoods import Gaussian
from stategp.means import Zero


@dataclasses.dataclass(frozen=True)
class AdditiveTask(Task):
    """Rows of several inputs, the inducing locations of each, and how components go together."""

    observed: Observed
    inducing: list[np.ndarray]
    layout: Layout
    table: Table

    @staticmethod
    def of(
        model: AdditiveGP,
        observed: Observed,
        inducing: list[np.ndarray],
        settings: Settings,
        show: Progress,
    ) -> "AdditiveTask":
        layout, table = lay_out(model, observed, inducing, pads=settings.method.pads)
        return AdditiveTask(settings, show, observed, inducing, layout, table)

    @property
    def count(self) -> int:
        return len(self.observed)

    def scales(self, model: AdditiveGP) -> np.ndarray:
        return additive_scales(model, self.observed)

    def limits(self, model: AdditiveGP, *, swept: bool = False) -> Limits:
        return search_limits(model, np.asarray(self.observed.y), swept=swept)

    def refined(self, model: AdditiveGP) -> "tuple[AdditiveGP, AdditiveTask] | None":
        kernels = larger_kernels(model.kernels)
        if kernels is None:
            return None
        names = dict(zip(model.names, kernels, strict=True))
        model = AdditiveGP(names, model.likelihood, model.mean)
        pads = self.settings.method.pads
        layout, table = lay_out(model, self.observed, self.inducing, pads=pads)
        return model, dataclasses.replace(self, layout=layout, table=table)

    def posterior(self, model: AdditiveGP, q: Q, result: FitResult | None) -> AdditivePosterior:
        """What was found, a chain for each component."""
        check_finite(model, q.elbo)
        sites = q.sites[0]
        about = averages(model, self.table, self.layout, sites)
        chains: dict[int, Chain] = {}
        centring: dict[int, Chain] = {}
        moments: dict[int, tuple[float, float]] = {}
        number = 0
        for group, linear, marginals, shared in zip(
            self.layout, about.sites, q.marginals, about.covariances, strict=True
        ):
            for j, i in enumerate(group.members):

                def chain(
                    pairs: PairMarginals, i: int = i, j: int = j, linear: Sites = linear
                ) -> Chain:
                    site, pair = jax.tree.map(lambda leaf: leaf[j], (linear, pairs))
                    kept = unpadded(site, pair, len(self.inducing[i]))
                    gp = GP(model.kernels[i], Gaussian(), Zero())
                    origin = self.observed.inputs[i].origin
                    return Chain.padded(gp, self.inducing[i], origin, (kept[0],), (kept[1],))

                chains[i], centring[i] = chain(marginals), chain(shared)
                moments[i] = float(about.mean[number]), float(about.variance[number])
                number += 1
        order = range(len(model.kernels))
        return AdditivePosterior(
            model,
            tuple(chains[i] for i in order),
            tuple(centring[i] for i in order),
            tuple(moments[i] for i in order),
            tuple(inputs.origin for inputs in self.observed.inputs),
            Training(self.table, self.layout, sites),
            float(q.elbo),
            len(self.observed),
            tuple(len(places) for places in self.inducing),
            result,
        )

"""Solar irradiance with learned inducing locations: how far above the grid's bound?

    stategp-experiments solar-locations [--quick] [--output experiments/results]

The paper mentions that inducing locations can be learned with the hyperparameters. Here they start
on the grid of the study `solar`, from the better of its two starts, and are learned by
`inducing=sg.Learned(grid)`. Draws the locations that were found.
"""

import numpy as np

import stategp as sg
from stategp_experiments import solar, studies


def learn(data, count, **options):
    """The better ends with locations on the grid, and learned."""
    z = solar.grid(data, count)
    both = []
    for inducing in (z, sg.Learned(z)):
        ends = [
            sg.fit(start, data.x_train, data.y_train, inducing=inducing, **options)
            for start in solar.starts(data)
        ]
        both.append(max(ends, key=lambda end: end.elbo))
    return both


def numbers_of(count, grid, learned):
    return {
        "inducing": count,
        "grid": grid.elbo,
        "learned": learned.elbo,
        "noise_grid": float(grid.model.likelihood.variance),
        "noise_learned": float(learned.model.likelihood.variance),
        "steps": learned.fit_result.steps,
        "converged": learned.fit_result.converged,
        "smallest_gap": float(np.min(np.diff(learned.inducing))),
        "largest_gap": float(np.max(np.diff(learned.inducing))),
    }


def picture(data, posteriors):
    figure, axes = studies.plt.subplots(
        2, 1, figsize=(9, 5.5), sharex=True, sharey=True, layout="constrained"
    )
    at = solar.grid(data, 1000)
    for axis, posterior, name in zip(axes, posteriors, ("on a grid", "learned"), strict=True):
        studies.band(axis, at, *posterior.predict_f(at), "C0", "mean ± 2 sd")
        axis.plot(data.x_train, data.y_train, "k.", ms=2.5, label="observed")
        z = np.asarray(posterior.inducing)
        axis.plot(
            z, np.zeros_like(z), "|", color="C3", ms=9, mew=1.2, label="inducing locations",
            transform=axis.get_xaxis_transform(),
        )  # fmt: skip
        title = f"{len(z)} locations {name}: bound {posterior.elbo:.1f}"
        axis.set_title(title, loc="left", fontsize=10)
        axis.set_ylabel("irradiance (standardised)")
        axis.set_xlim(at[0], at[-1])
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, ncols=3, loc="outside lower center", fontsize=9, frameon=False)
    axes[-1].set_xlabel("year")
    return figure


def main(arguments: list[str]) -> None:
    options = studies.parser(__doc__, quick="M = 60, few steps").parse_args(arguments)
    counts, steps = ([60], 100) if options.quick else ([60, 120], 20_000)
    data = sg.data.solar()
    rows = []
    print("  M   bound, grid   learned   noise, grid   learned   steps   gaps (years)")
    for count in counts:
        found = learn(data, count, max_steps=steps, progress=False)
        row = numbers_of(count, *found)
        rows.append(row)
        print(
            f"{count:3d} {row['grid']:13.2f} {row['learned']:9.2f} {row['noise_grid']:13.4f}"
            f" {row['noise_learned']:9.4f} {row['steps']:7d}"
            f"   {row['smallest_gap']:.2f} to {row['largest_gap']:.1f}"
            + ("" if row["converged"] else "   (not converged)"),
            flush=True,
        )
        if count == counts[0]:
            studies.save(picture(data, found), options.output / "solar_locations.png")
    studies.write(rows, options.output / "solar_locations.json")

"""What the two peers in TensorFlow share: gradients in logarithms, and fits by Adam."""

import itertools

import gpflow
import tensorflow as tf

from benchmarks.peers import protocol

STEPS_TO_OPTIMUM = 50


def likelihood_of(job):
    """GPflow's likelihoods; Bernoulli's link is probit unless told otherwise."""
    if job.gaussian:
        return gpflow.likelihoods.Gaussian(job.noise)
    return gpflow.likelihoods.Bernoulli(invlink=tf.sigmoid)


def words(job):
    return {} if job.gaussian else {"link": "logit"}


def value_and_gradient(bound, variables):
    """One compiled function of no arguments: the bound, and its gradient in `variables`."""

    @tf.function
    def function():
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(variables)
            value = bound()
        return value, tape.gradient(value, variables)

    return function


def finished(result):
    """Wait for a result of TensorFlow by copying it out."""
    return tf.nest.map_structure(lambda tensor: tensor.numpy(), result)


def time_bound(job, bound):
    function = tf.function(bound)
    value, times = protocol.timed(job, lambda: finished(function()))
    return {"value": float(value), **words(job), **times}


def time_gradient(job, bound, hyperparameters, q):
    """Time the bound with its gradient in hyperparameters (GPflow's Parameters) and in q."""
    variables = [p.unconstrained_variable for p in hyperparameters]
    function = value_and_gradient(bound, [*variables, *q])
    (value, slopes), times = protocol.timed(job, lambda: finished(function()))
    gradient = [in_logarithm(*pair) for pair in zip(hyperparameters, slopes, strict=False)]
    gradient += [None] * (3 - len(gradient))
    return {"value": float(value), "gradient": gradient, **words(job), **times}


def in_logarithm(parameter, slope):
    """From the gradient in the unconstrained variable to that in the parameter's logarithm."""
    variable = parameter.unconstrained_variable
    with tf.GradientTape() as tape:
        value = parameter.transform.forward(variable)
    return float(slope * value / tape.gradient(value, variable))


def climb(job, natural_step, bound):
    """Natural steps until the bound stands still: one is enough for Gaussian observations."""
    natural_step()
    if job.gaussian:
        return
    bound = tf.function(bound)
    last = bound().numpy()
    for _ in range(STEPS_TO_OPTIMUM):
        natural_step()
        value = bound().numpy()
        if abs(value - last) < 1e-9 * abs(value):
            break
        last = value


def fit_by_adam(job, natural_step, bound, hyperparameters, q):
    """Natural gradients on q and Adam on the hyperparameters, in turn."""
    variables = [p.unconstrained_variable for p in hyperparameters]
    function = value_and_gradient(bound, variables)
    adam = tf.keras.optimizers.Adam(job.learning_rate)
    adam.build(variables)

    @tf.function
    def move(slopes):
        adam.apply_gradients(zip([-slope for slope in slopes], variables, strict=True))

    state = [*variables, *q, *(v.value for v in adam.variables)]
    start = [variable.numpy() for variable in state]

    def compile_all():
        natural_step()
        move(function()[1])
        for variable, value in zip(state, start, strict=True):
            variable.assign(value)

    watch = protocol.Fit(job, compile_all)

    def run():
        for _ in itertools.count():
            natural_step()
            value, slopes = function()
            watch(value.numpy())
            move(slopes)

    return watch.run(run) | words(job)

"""Studies with stategp: the experiments of the paper, and some of its own.

`stategp-experiments` lists them; `stategp-experiments NAME --quick` runs a small version of one.
"""

"""`python -m stategp` is the command `stategp`."""

from stategp.command import main

main()

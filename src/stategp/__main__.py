"""`python -m stategp` is the command `stategp`."""

from stategp.command import main

if __name__ == "__main__":
    main()

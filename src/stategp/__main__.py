"""`python -m stategp` is the command `stategp`."""

from stategp._command import main

if __name__ == "__main__":
    main()

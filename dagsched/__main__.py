"""``python -m dagsched`` is the command ``dagsched``."""

from dagsched.cli import main

if __name__ == "__main__":
    main()

"""``python -m gateway`` is the command ``forebay``."""

from gateway.cli.main import main

if __name__ == "__main__":
    main()

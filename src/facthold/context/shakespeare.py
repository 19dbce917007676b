"""Makes the counts that come with the package: ``python -m facthold.context.shakespeare tinyshakespeare.txt``."""

import sys
from pathlib import Path

from facthold.context.bigrams import SHIPPED, Bigrams

if __name__ == "__main__":
    Bigrams.of_text(sys.argv[1]).save(Path(__file__).with_name(SHIPPED))

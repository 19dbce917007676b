"""All tests run as the command line does: `import facthold` settles threads and keeps compiled programs."""

import facthold

assert facthold.__version__

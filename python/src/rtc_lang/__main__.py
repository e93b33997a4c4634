"""`python -m rtc_lang ...` is `rtc ...`, where the folder of programs is not on the path."""

import os
import sys

from .program import program

os.execv(program(), ["rtc", *sys.argv[1:]])

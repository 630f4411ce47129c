"""An editor during which the user presses Ctrl-C: interrupts the program that started it."""

import os
import signal
import time

os.kill(os.getppid(), signal.SIGINT)
time.sleep(30)

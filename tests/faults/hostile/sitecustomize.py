"""For any Python subject that has this folder on its PYTHONPATH: the switch interval that the
environment asks for."""

import os
import sys

sys.setswitchinterval(float(os.environ["FAULTS_SWITCH_INTERVAL"]))

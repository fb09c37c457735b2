import atexit
import shutil
import tempfile

from setuptools import setup

# Build outside of the checkout. A folder build/ that an earlier installation left would add modules
# that this version no longer has.
base = tempfile.mkdtemp(prefix="minimcp-build-")
atexit.register(shutil.rmtree, base, ignore_errors=True)

setup(options={"build": {"build_base": base}})

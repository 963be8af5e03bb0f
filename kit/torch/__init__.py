"""torch through psring: modules as step functions, and the backend "psring".

`import kit.torch` makes that backend known to torch.distributed.
"""

from importlib.util import find_spec

if find_spec("torch") is None:
    raise ImportError("kit.torch needs PyTorch; run: pip install torch")

from kit.torch.compressing import Compress as Compress
from kit.torch.module import step as step
from kit.torch.start import init as init
from kit.torch.start import traffic as traffic

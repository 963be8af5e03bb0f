"""torch.distributed through psring: `import kit.torch` makes the backend "psring"."""

from importlib.util import find_spec

if find_spec("torch") is None:
    raise ImportError("kit.torch needs PyTorch; run: pip install torch")

from kit.torch.compressing import Compress as Compress
from kit.torch.start import init as init
from kit.torch.start import traffic as traffic

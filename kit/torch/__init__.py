"""torch.distributed through psring: `import kit.torch` makes the backend "psring"."""

from kit.torch.compressing import Compress as Compress
from kit.torch.start import init as init
from kit.torch.start import traffic as traffic

__all__ = ["Compress", "init", "traffic"]

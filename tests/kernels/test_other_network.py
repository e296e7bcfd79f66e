# SPDX-License-Identifier: GPL-2.0-only
"""What the default kernel's tests ask of the network and of reproducibility, asked of other kernels."""
from tests.kernel.test_kernel_network import *  # noqa: F401,F403
from tests.kernel.test_kernel_reproducibility import *  # noqa: F401,F403

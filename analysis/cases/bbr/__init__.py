# SPDX-License-Identifier: GPL-2.0-only
"""The test cases of draft-ietf-ccwg-bbr, appendix "BBR Example Test Cases"."""

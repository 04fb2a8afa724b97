# SPDX-License-Identifier: Apache-2.0
"""Port knocking: a service of Polycube in Python."""

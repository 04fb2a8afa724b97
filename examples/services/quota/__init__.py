# SPDX-License-Identifier: Apache-2.0
"""Quotas: a service of Polycube in Python."""

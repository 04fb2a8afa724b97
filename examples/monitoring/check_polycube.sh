#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A plug-in for monitoring systems such as Nagios and Icinga: it prints one line, and exits with the status that they
# expect. Options are passed to polycubectl: --instance NAME.

polycubectl "$@" status --check
case $? in
0) exit 0 ;; # OK
5) exit 1 ;; # WARNING
6) exit 2 ;; # CRITICAL
esac
exit 3 # UNKNOWN: it could not be asked

#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Turns new namespaces into a machine that systemd boots: separate file systems where it writes, the programs under test
# in /usr/local, and only the units that the tests start. $1 is the directory that make install filled.
set -euo pipefail
dest=$1

# Nothing that is mounted here reaches the machine that runs the test; within, mounts spread as they do on any machine.
mount --make-rprivate /
mount --make-rshared /
mount -t sysfs sysfs /sys
mount -t cgroup2 cgroup2 /sys/fs/cgroup
mount -t bpf bpf /sys/fs/bpf
for dir in /run /var/lib /var/log; do
	mount -t tmpfs -o mode=0755 tmpfs "$dir"
done
mkdir /var/lib/etc /var/lib/work
mount -t overlay overlay -o lowerdir=/etc,upperdir=/var/lib/etc,workdir=/var/lib/work /etc
mount --bind "$dest/usr/local" /usr/local

units=/run/systemd/system
mkdir -p $units/polycubed.service.d
for unit in /lib/systemd/system/sysinit.target.wants/*; do
	ln -sfT /dev/null "$units/$(basename "$unit")"
done
cat >$units/polycubed.service.d/log.conf <<-END
	[Service]
	StandardOutput=append:/var/log/polycubed.out
	StandardError=append:/var/log/polycubed.out
END
cat >$units/trial.target <<-END
	[Unit]
	Requires=sysinit.target
	After=sysinit.target
END
export container=other PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
exec /lib/systemd/systemd --system --unit=trial.target --log-target=console --show-status=0

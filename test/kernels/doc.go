// SPDX-License-Identifier: Apache-2.0

// Package kernels runs the project's tests on kernels that this machine does not run: each is booted in QEMU, without
// KVM, with the release of Debian that this machine has, the checkout, and test binaries that were built here.
//
// Its parts, in dependency order:
//
//	guest     the machine's first process, and the language it speaks with the host
//	apt       packages of this machine's release, fetched and unpacked without being installed
//	Root      a root file system, made once and kept
//	Kernel    a kernel, its modules and what its initial RAM disk needs, kept too
//	tree      the disk with the checkout and the test binaries, made for each run
//	machine   one emulator, from its start to its end
//	cable     what connects two of them, for make test-vm
//	judge     which tests ran, and their results
//
// Emulated time is slow: every deadline of a test goes through pace.Stretch.
package kernels

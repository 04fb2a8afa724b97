// SPDX-License-Identifier: Apache-2.0

// Package pcapfilter compiles a filter expression in tcpdump syntax to code for the fast path. tcpdump itself compiles the
// expression to classic BPF; this package translates that to eBPF, and runs it on bytes.
package pcapfilter

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/polycube/polycube/cube"
)

// Limits of a filter. The number of instructions limits the work of the kernel's verifier.
const (
	maxExpression   = 1024
	maxInstructions = 256
	compileTimeout  = 5 * time.Second
)

// instruction is one of classic BPF (struct sock_filter).
type instruction struct {
	code   uint16
	jt, jf uint8
	k      uint32
}

// Filter is a compiled expression.
type Filter struct {
	// Expression is its source.
	Expression string
	prog       []instruction
}

// Compile compiles an expression in the language of pcap-filter(7). An error has tcpdump's message.
func Compile(ctx context.Context, expression string) (*Filter, error) {
	if len(expression) > maxExpression {
		return nil, fmt.Errorf("filter: %d characters, the limit is %d: %w", len(expression), maxExpression, cube.ErrInvalid)
	}
	if strings.ContainsRune(expression, 0) {
		return nil, fmt.Errorf("filter: contains a NUL character: %w", cube.ErrInvalid)
	}
	ctx, cancel := context.WithTimeout(ctx, compileTimeout)
	defer cancel()
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, "tcpdump", "-ddd", "-y", "EN10MB", "--", expression)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return nil, fmt.Errorf("filter %q: filters require tcpdump: install the package tcpdump: %w", expression, cube.ErrUnsupported)
	case ctx.Err() != nil:
		return nil, fmt.Errorf("filter %q: tcpdump did not compile it within %v (names of hosts are looked up, addresses are not): %w",
			expression, compileTimeout, cube.ErrInvalid)
	case err != nil:
		return nil, fmt.Errorf("filter %q: %s: %w", expression, sentence(stderr.String(), err), cube.ErrInvalid)
	}
	prog, err := parse(stdout.String())
	if err != nil {
		return nil, fmt.Errorf("filter %q: %w", expression, err)
	}
	return &Filter{Expression: expression, prog: prog}, nil
}

// sentence is the last message of tcpdump.
func sentence(stderr string, err error) string {
	lines := strings.Split(strings.TrimSpace(stderr), "\n")
	last := strings.TrimPrefix(lines[len(lines)-1], "tcpdump: ")
	if last == "" {
		return "tcpdump: " + err.Error()
	}
	return last
}

// parse parses the output of tcpdump -ddd: the number of instructions, then one per line.
func parse(text string) ([]instruction, error) {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	n, err := strconv.Atoi(lines[0])
	if err != nil || n != len(lines)-1 || n == 0 {
		return nil, fmt.Errorf("parse the output of tcpdump: %d lines for %q", len(lines)-1, lines[0])
	}
	if n > maxInstructions {
		return nil, fmt.Errorf("it compiles to %d instructions, the limit is %d: %w", n, maxInstructions, cube.ErrInvalid)
	}
	prog := make([]instruction, n)
	for i, line := range lines[1:] {
		at := &prog[i]
		if _, err := fmt.Sscanf(line, "%d %d %d %d", &at.code, &at.jt, &at.jf, &at.k); err != nil {
			return nil, fmt.Errorf("parse the output of tcpdump: line %q: %w", line, err)
		}
	}
	return prog, check(prog)
}

// Fields of an instruction's code.
const (
	classMask = 0x07
	classLD   = 0x00
	classLDX  = 0x01
	classST   = 0x02
	classSTX  = 0x03
	classALU  = 0x04
	classJMP  = 0x05
	classRET  = 0x06
	classMISC = 0x07

	modeMask = 0xe0
	modeIMM  = 0x00
	modeABS  = 0x20
	modeIND  = 0x40
	modeMEM  = 0x60
	modeLEN  = 0x80
	modeMSH  = 0xa0

	opMask = 0xf0
	srcX   = 0x08
	retA   = 0x10
	miscTA = 0x80 // TXA; without it TAX

	memorySlots = 16
)

// Operations, in the place of opMask.
const (
	aluAdd, aluSub, aluMul, aluDiv = 0x00, 0x10, 0x20, 0x30
	aluOr, aluAnd, aluLsh, aluRsh  = 0x40, 0x50, 0x60, 0x70
	aluNeg, aluMod, aluXor         = 0x80, 0x90, 0xa0

	jmpJA, jmpJEQ, jmpJGT, jmpJGE, jmpJSET = 0x00, 0x10, 0x20, 0x30, 0x40
)

// width is the number of bytes of a packet load.
func (i instruction) width() uint32 { return [...]uint32{4, 2, 1, 0}[i.code>>3&3] }

// loadsPacket reports whether a load reads from the packet.
func (i instruction) loadsPacket() bool {
	mode := i.code & modeMask
	switch i.code & classMask {
	case classLD:
		return mode == modeABS || mode == modeIND
	case classLDX:
		return mode == modeMSH
	}
	return false
}

// check refuses a program with unknown instructions, or jumps out of it.
func check(prog []instruction) error {
	for i, ins := range prog {
		bad := func(what string) error {
			return fmt.Errorf("instruction %d (code %#x, %d): %s: %w", i, ins.code, int32(ins.k), what, cube.ErrUnsupported)
		}
		mode := ins.code & modeMask
		class := ins.code & classMask
		switch class {
		case classLD, classLDX:
			known := mode == modeIMM || mode == modeMEM || mode == modeLEN || ins.loadsPacket()
			if !known || ins.loadsPacket() && ins.width() == 0 {
				return bad("unknown load")
			}
			if mode == modeABS && int32(ins.k) < 0 {
				return bad("the expression uses data that is not in the packet")
			}
		case classALU:
			if ins.code&opMask > aluXor {
				return bad("unknown arithmetic")
			}
		case classJMP:
			far := max(uint64(ins.jt), uint64(ins.jf))
			if ins.code&opMask == jmpJA {
				far = uint64(ins.k)
			}
			if ins.code&opMask > jmpJSET || uint64(i)+1+far >= uint64(len(prog)) {
				return bad("unknown jump")
			}
		case classST, classSTX, classRET, classMISC:
		}
		memory := class == classST || class == classSTX || class <= classLDX && mode == modeMEM
		if memory && ins.k >= memorySlots {
			return bad("invalid memory slot")
		}
	}
	if prog[len(prog)-1].code&classMask != classRET {
		return fmt.Errorf("the last instruction does not return: %w", cube.ErrUnsupported)
	}
	return nil
}

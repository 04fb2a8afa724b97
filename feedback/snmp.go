// SPDX-License-Identifier: Apache-2.0

package feedback

// Loads by SNMP: UCD-SNMP-MIB, as net-snmp has it, and HOST-RESOURCES-MIB for agents without the CPU's counters.

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"time"

	"github.com/gosnmp/gosnmp"
)

const (
	snmpPort = 161
	// attempts is how often a request is sent within the timeout: UDP loses packets.
	attempts = 2
	// walkRows and walkSteps limit the table of processors.
	walkRows, walkSteps = 32, 32
)

// The objects that agents are asked for.
const (
	cpuUser      = ".1.3.6.1.4.1.2021.11.50.0" // ssCpuRawUser
	cpuNice      = ".1.3.6.1.4.1.2021.11.51.0"
	cpuSystem    = ".1.3.6.1.4.1.2021.11.52.0"
	cpuIdle      = ".1.3.6.1.4.1.2021.11.53.0"
	cpuWait      = ".1.3.6.1.4.1.2021.11.54.0"
	cpuInterrupt = ".1.3.6.1.4.1.2021.11.56.0"
	cpuSoftIRQ   = ".1.3.6.1.4.1.2021.11.61.0"
	cpuSteal     = ".1.3.6.1.4.1.2021.11.64.0"
	cpuNumber    = ".1.3.6.1.4.1.2021.11.67.0"  // ssCpuNumCpus
	load1        = ".1.3.6.1.4.1.2021.10.1.5.1" // laLoadInt.1: hundredths
	memTotal     = ".1.3.6.1.4.1.2021.4.5.0"    // memTotalReal
	memFree      = ".1.3.6.1.4.1.2021.4.6.0"    // memAvailReal, without buffers and caches
	memBuffer    = ".1.3.6.1.4.1.2021.4.14.0"   // memBuffer
	memCached    = ".1.3.6.1.4.1.2021.4.15.0"   // memCached
	processes    = ".1.3.6.1.2.1.25.1.6.0"      // hrSystemProcesses
	processors   = ".1.3.6.1.2.1.25.3.3.1.2"    // hrProcessorLoad, a column
	percentFull  = 100                          // of hrProcessorLoad
	wrap         = uint64(1) << 32              // of Counter32
)

// busyParts are the counters of a CPU's time that is used; idleParts those of the rest.
var (
	busyParts = []string{cpuUser, cpuNice, cpuSystem, cpuInterrupt, cpuSoftIRQ, cpuSteal}
	idleParts = []string{cpuIdle, cpuWait}
)

// errRestarted says that the counters of an agent began at zero again; the next poll has a difference.
var errRestarted = errors.New("the agent's counters were reset")

// values are what an agent answered, by object.
type values map[string]uint64

// snmp is a collector.
type snmp struct {
	at      netip.AddrPort
	conf    SNMPConfig
	ratios  Ratios
	full    uint32 // processes
	secrets string // directory

	last values  // counters of the CPU
	cpu  float64 // between the last two polls with different counters
	has  bool    // cpu
}

func (s *snmp) poll(ctx context.Context) (Reading, error) {
	client, err := s.client(ctx)
	if err != nil {
		return Reading{}, err
	}
	if err := client.Connect(); err != nil {
		return Reading{}, plainSNMP(err)
	}
	conn := client.Conn
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })() // it ends requests
	is, err := get(client, s.objects())
	if err != nil {
		return Reading{}, err
	}
	var loads []float64
	if s.needsTable(is) {
		if loads, err = walk(client); err != nil {
			return Reading{}, err
		}
	}
	return s.read(is, loads)
}

// client returns a client with its secrets, which are read each time: they may change.
func (s *snmp) client(ctx context.Context) (*gosnmp.GoSNMP, error) {
	deadline, ok := ctx.Deadline()
	if !ok {
		return nil, errors.New("a poll needs a deadline")
	}
	secret, err := readCredentials(s.secrets, s.conf.Credentials)
	if err != nil {
		return nil, err
	}
	c := &gosnmp.GoSNMP{
		Context: ctx, Target: s.at.Addr().String(), Port: s.at.Port(), Transport: "udp", Version: gosnmp.Version2c,
		Community: s.conf.Community, MaxOids: gosnmp.MaxOids, MaxRepetitions: walkRows,
		Timeout: time.Until(deadline) / attempts, Retries: attempts - 1,
	}
	if secret.community != "" {
		c.Community = secret.community
	}
	if s.conf.Version == V2C {
		return c, nil
	}
	security := &gosnmp.UsmSecurityParameters{
		UserName: s.conf.User, AuthenticationProtocol: gosnmp.NoAuth, PrivacyProtocol: gosnmp.NoPriv,
	}
	c.Version, c.SecurityModel, c.SecurityParameters, c.MsgFlags = gosnmp.Version3, gosnmp.UserSecurityModel, security, gosnmp.NoAuthNoPriv
	if s.conf.Auth != NoAuth {
		if len(secret.auth) < leastPassphrase {
			return nil, fmt.Errorf("credentials %s have no line `auth` with at least %d characters", s.conf.Credentials, leastPassphrase)
		}
		security.AuthenticationProtocol = map[Auth]gosnmp.SnmpV3AuthProtocol{SHA: gosnmp.SHA, SHA256: gosnmp.SHA256, SHA512: gosnmp.SHA512}[s.conf.Auth]
		security.AuthenticationPassphrase, c.MsgFlags = secret.auth, gosnmp.AuthNoPriv
	}
	if s.conf.Priv != NoPriv {
		if len(secret.priv) < leastPassphrase {
			return nil, fmt.Errorf("credentials %s have no line `priv` with at least %d characters", s.conf.Credentials, leastPassphrase)
		}
		security.PrivacyProtocol, security.PrivacyPassphrase, c.MsgFlags = gosnmp.AES, secret.priv, gosnmp.AuthPriv
	}
	return c, nil
}

// objects returns what the ratios need.
func (s *snmp) objects() (all []string) {
	if s.ratios.CPU > 0 {
		all = append(append(all, busyParts...), idleParts...)
	}
	if s.ratios.Load > 0 {
		all = append(all, load1, cpuNumber)
	}
	if s.ratios.Memory > 0 {
		all = append(all, memTotal, memFree, memBuffer, memCached)
	}
	if s.ratios.Processes > 0 {
		all = append(all, processes)
	}
	return all
}

// needsTable reports whether the table of processors says what the counters do not.
func (s *snmp) needsTable(is values) bool {
	_, counts := is[cpuIdle]
	_, numbers := is[cpuNumber]
	return s.ratios.CPU > 0 && !counts || s.ratios.Load > 0 && !numbers
}

// get asks for objects. Those that the agent does not have are not in the result.
func get(client *gosnmp.GoSNMP, objects []string) (values, error) {
	packet, err := client.Get(objects)
	if err != nil {
		return nil, plainSNMP(err)
	}
	if packet.Error != gosnmp.NoError {
		return nil, fmt.Errorf("the agent answers with the error %s", packet.Error)
	}
	asked := map[string]bool{}
	for _, object := range objects {
		asked[object] = true
	}
	is := values{}
	for i := range packet.Variables {
		v := &packet.Variables[i]
		number, ok := numberOf(v)
		switch {
		case !asked[v.Name]:
			return nil, errors.New("the agent answers with an object that it was not asked for")
		case ok:
			is[v.Name] = number
		case v.Type == gosnmp.NoSuchObject, v.Type == gosnmp.NoSuchInstance, v.Type == gosnmp.Null:
		default:
			return nil, fmt.Errorf("the agent's object %s is no number", v.Name)
		}
	}
	return is, nil
}

// numberOf returns the value of an object, if that is a number and not negative.
func numberOf(v *gosnmp.SnmpPDU) (uint64, bool) {
	switch n := v.Value.(type) {
	case int:
		return uint64(max(n, 0)), n >= 0
	case uint:
		return uint64(n), true
	case uint32:
		return uint64(n), true
	case uint64:
		return n, true
	}
	return 0, false
}

// walk returns the load of each processor, as a fraction.
func walk(client *gosnmp.GoSNMP) (loads []float64, err error) {
	at := processors
	for range walkSteps {
		packet, err := client.GetBulk([]string{at}, 0, walkRows)
		if err != nil {
			return nil, plainSNMP(err)
		}
		if len(packet.Variables) == 0 {
			return loads, nil
		}
		for i := range packet.Variables {
			v := &packet.Variables[i]
			if !strings.HasPrefix(v.Name, processors+".") || v.Type == gosnmp.EndOfMibView {
				return loads, nil
			}
			percent, ok := numberOf(v)
			if !ok || percent > percentFull {
				return nil, errors.New("the agent's hrProcessorLoad is no percentage")
			}
			loads = append(loads, float64(percent)/percentFull)
			if v.Name == at {
				return nil, errors.New("the agent's table of processors does not end")
			}
			at = v.Name
		}
	}
	return nil, fmt.Errorf("the agent has more than %d processors", walkRows*walkSteps)
}

// read computes the load of a server. loads are those of the processors, where they are needed.
func (s *snmp) read(is values, loads []float64) (Reading, error) {
	var sum, ratios float64
	add := func(ratio uint8, load float64) {
		sum += float64(ratio) * within(load)
		ratios += float64(ratio)
	}
	pending := false
	if s.ratios.CPU > 0 {
		load, known, err := s.cpuLoad(is, loads)
		if err != nil {
			return Reading{}, err
		}
		add(s.ratios.CPU, load)
		pending = !known
	}
	if s.ratios.Load > 0 {
		length, ok := is[load1]
		cpus := is[cpuNumber]
		if cpus == 0 {
			cpus = uint64(len(loads))
		}
		if !ok || cpus == 0 {
			return Reading{}, errors.New("the agent has no laLoad, or no number of CPUs: set ratios load=0")
		}
		add(s.ratios.Load, float64(length)/100/float64(cpus))
	}
	if s.ratios.Memory > 0 {
		total, free := is[memTotal], is[memFree]+is[memBuffer]+is[memCached]
		if _, ok := is[memFree]; !ok || total == 0 {
			return Reading{}, errors.New("the agent has no memTotalReal or memAvailReal: set ratios memory=0")
		}
		add(s.ratios.Memory, 1-float64(min(free, total))/float64(total))
	}
	if s.ratios.Processes > 0 {
		number, ok := is[processes]
		if !ok {
			return Reading{}, errors.New("the agent has no hrSystemProcesses: set ratios processes=0")
		}
		add(s.ratios.Processes, float64(number)/float64(max(s.full, 1)))
	}
	return Reading{Load: sum / ratios, Pending: pending}, nil
}

// cpuLoad returns the share of the CPU's time that was used since the last poll; false if there was none yet.
func (s *snmp) cpuLoad(is values, loads []float64) (load float64, known bool, err error) {
	if _, ok := is[cpuIdle]; !ok {
		if len(loads) == 0 {
			return 0, false, errors.New("the agent has neither ssCpuRawIdle nor hrProcessorLoad: set ratios cpu=0")
		}
		for _, l := range loads {
			load += l
		}
		return load / float64(len(loads)), true, nil
	}
	last := s.last
	s.last = is
	if last == nil {
		return 0, false, nil
	}
	busy, err := sumOf(last, is, busyParts)
	if err == nil {
		var rest float64
		if rest, err = sumOf(last, is, idleParts); err == nil && busy+rest > 0 { // an agent may have cached them
			s.cpu, s.has = busy/(busy+rest), true
		}
	}
	if errors.Is(err, errRestarted) {
		return 0, false, nil
	}
	return s.cpu, s.has, err
}

// sumOf returns by how much counters have grown together.
func sumOf(last, is values, parts []string) (sum float64, err error) {
	for _, part := range parts {
		was, now := last[part], is[part]
		switch {
		case now >= was:
			sum += float64(now - was)
		case was >= wrap/2 && was < wrap:
			sum += float64(now + wrap - was)
		default:
			return 0, errRestarted
		}
	}
	return sum, nil
}

// plainSNMP is an error of the client in words that say what to look at.
func plainSNMP(err error) error {
	if strings.Contains(err.Error(), "timeout") || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, net.ErrClosed) {
		return errLate
	}
	return fmt.Errorf("SNMP: %s", printable(plain(err).Error()))
}

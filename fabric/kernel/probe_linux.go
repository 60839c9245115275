package kernel

import (
	"errors"
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/netkvlab/netkvlab/fabric"
	"github.com/netkvlab/netkvlab/fabric/kernel/internal/rtnl"
)

// rightsNeed is what every probe, and every lab, needs of its caller.
const rightsNeed = "root (CAP_SYS_ADMIN and CAP_NET_ADMIN)"

// try makes a scratch namespace, which ends with the thread's stay in it, and
// asks there.
func (p *Probe) try() error {
	err := onThread(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("make a network namespace: %w", err)
		}
		c, err := rtnl.Open()
		if err != nil {
			return err
		}
		defer func() { _ = c.Close() }()
		return p.ask(c)
	})
	return p.judge(err)
}

// judge turns the errnos by which a kernel says "I do not know that" into an
// *UnsupportedError.
func (p *Probe) judge(err error) error {
	need := p.Need
	switch {
	case err == nil:
		return nil
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES):
		need = rightsNeed
	case !isUnknown(err):
		return fmt.Errorf("probe %s: %w", p.Name, err)
	}
	return &UnsupportedError{Feature: p.Name, Need: need, Cause: err}
}

func isUnknown(err error) bool {
	for _, errno := range []syscall.Errno{unix.ENOENT, unix.EOPNOTSUPP, unix.ENOSYS, unix.EINVAL, unix.ENODEV, unix.EPROTONOSUPPORT} {
		if errors.Is(err, errno) {
			return true
		}
	}
	return false
}

// ask tries the thing in the calling thread's scratch namespace.
func (p *Probe) ask(c *rtnl.Conn) error {
	var b rtnl.Batch
	switch p {
	case ProbeRoot, ProbeNetns:
		return nil
	case ProbeVeth:
		askVeth(&b)
	case ProbeTBF:
		return tryTree(c, queueing(&fabric.Plan{}, &probeShape, false))
	case ProbeHTB:
		return tryTree(c, queueing(&fabric.Plan{}, &classesShape, false)[:1])
	case ProbeU32:
		return tryTree(c, queueing(&fabric.Plan{}, &classesShape, false))
	case ProbeNetem:
		slow := probeShape
		slow.Delay = fabric.MinLatency
		return tryTree(c, queueing(&fabric.Plan{}, &slow, true))
	case ProbeRED:
		marking := probeShape
		marking.MarkBytes = probeShape.LimitBytes / 2
		return tryTree(c, queueing(&fabric.Plan{}, &marking, false))
	case ProbeFlowQueues:
		fair := probeShape
		fair.FlowQueues, fair.QuantumBytes = 2, fabric.FrameBytes
		return tryTree(c, queueing(&fabric.Plan{}, &fair, false))
	case ProbeDCTCP:
		return askCongestionControl("dctcp")
	case ProbeHashPolicy3:
		if err := writeSysctl(sysctl{key: "ipv4/fib_multipath_hash_policy", value: "3"}); err != nil {
			return err
		}
		return writeSysctl(sysctl{key: "ipv4/fib_multipath_hash_fields", value: "55"})
	case ProbeHashSeed:
		return writeSysctl(sysctl{key: "ipv4/fib_multipath_hash_seed", value: "1"})
	case ProbeRTOMin:
		return writeSysctl(sysctl{key: "ipv4/tcp_rto_min_us", value: "5000"})
	default:
		return fmt.Errorf("unknown probe %q: %w", p.Name, unix.EBADRQC)
	}
	return c.Exec(&b)
}

func askVeth(b *rtnl.Batch) {
	b.Begin(unix.RTM_NEWLINK, createNew, "create veth", "")
	ifinfo(b, 0, 0)
	b.AttrString(unix.IFLA_IFNAME, "probe0")
	b.Nest(unix.IFLA_LINKINFO)
	b.AttrString(unix.IFLA_INFO_KIND, "veth")
}

// probeShape and classesShape are any shapes that a port could have.
var (
	probeShape   = fabric.Shape{Rate: 1e8, BurstBytes: 12500, LimitBytes: 65536}
	classesShape = fabric.Shape{Rate: 1e8, BurstBytes: 12500, LimitBytes: 65536, Classes: true, KVRate: 6e7, BackgroundRate: 3e7, OtherRate: 1e7}
)

// askCongestionControl gives a socket a congestion control, for which the kernel
// loads a module if it has one.
func askCongestionControl(name string) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	if err := unix.SetsockoptString(fd, unix.IPPROTO_TCP, unix.TCP_CONGESTION, name); err != nil {
		return fmt.Errorf("set congestion control %s: %w", name, err)
	}
	return nil
}

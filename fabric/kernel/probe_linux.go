package kernel

import (
	"fmt"

	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/netkvlab/netkvlab/fabric"
	"github.com/netkvlab/netkvlab/fabric/kernel/internal/rtnl"
)

// probes is the table. Netem, RED and queues for flows are tried as a port uses them:
// a shaper behind the delay, marks without drops, a filter that sorts.
var probes = []*Probe{
	{Name: "root", Need: "CAP_SYS_ADMIN and CAP_NET_ADMIN", Required: true, Try: inScratch(nothing)},
	{Name: "netns", Need: "CONFIG_NET_NS", Required: true, Try: inScratch(nothing)},
	{Name: "veth", Need: "CONFIG_VETH", Required: true, Try: inScratch(tryVeth)},
	{Name: "tbf", Need: "CONFIG_NET_SCH_TBF", Required: true, Try: inScratch(tryShape(probeShape, 0))},
	{
		Name: "htb", Need: "CONFIG_NET_SCH_HTB", NeededBy: hasClasses, Try: inScratch(tryShape(classesShape, 1)),
		Without: "background traffic is not counted apart from transfers: oracle.separation must be none",
	},
	{
		Name: "u32", Need: "CONFIG_NET_CLS_U32", NeededBy: hasClasses, Try: inScratch(tryShape(classesShape, 0)),
		Without: "background traffic is not counted apart from transfers: oracle.separation must be none",
	},
	{Name: "hash-policy-3", Need: "CONFIG_IP_ROUTE_MULTIPATH and Linux 5.13", Required: true, Try: inScratch(trySysctls(
		sysctl{key: "ipv4/fib_multipath_hash_policy", value: "3"}, sysctl{key: "ipv4/fib_multipath_hash_fields", value: "55"}))},
	{
		Name: "hash-seed", Need: "Linux 6.11", Try: inScratch(trySysctls(sysctl{key: "ipv4/fib_multipath_hash_seed", value: "1"})),
		Without: "switches above the rack hash other fields instead; polarization is avoided less well",
	},
	{
		Name: "rto-min", Need: "Linux 6.11", Try: inScratch(trySysctls(sysctl{key: "ipv4/tcp_rto_min_us", value: "5000"})),
		Without: "the 5 ms retransmission floor comes from route metrics alone",
	},
	{
		Name: "netem", Need: "CONFIG_NET_SCH_NETEM", Try: inScratch(tryShape(delayedShape, 0)),
		Without: "links have no latency of their own, and every run says so",
	},
	{
		Name: "red", Need: "CONFIG_NET_SCH_RED", NeededBy: (*fabric.Plan).Marks, Try: inScratch(tryShape(markingShape, 0)),
		Without: "transfer.congestionControl: dctcp is refused, since queues could not mark: take cubic",
	},
	{
		Name: "flow-queues", Need: "CONFIG_NET_SCH_HTB and CONFIG_NET_CLS_BPF", NeededBy: (*fabric.Plan).Fair, Try: inScratch(tryShape(fairShape, 0)),
		Without: "topology.buffers.queueing: fair is refused: take fifo",
	},
	{
		Name: "dctcp", Need: "CONFIG_TCP_CONG_DCTCP", NeededBy: (*fabric.Plan).Marks, Try: inScratch(tryDCTCP),
		Without: "transfer.congestionControl: dctcp is refused: take cubic",
	},
}

// The shapes are any that a port could have: plain, with marks, with queues for flows, with
// classes, behind a delay.
var (
	delayedShape = fabric.Shape{Rate: 1e8, BurstBytes: 12500, LimitBytes: 65536, Delay: fabric.MinLatency}
	classesShape = fabric.Shape{Rate: 1e8, BurstBytes: 12500, LimitBytes: 65536, Classes: true, KVRate: 6e7, BackgroundRate: 3e7, OtherRate: 1e7}
	probeShape   = fabric.Shape{Rate: 1e8, BurstBytes: 12500, LimitBytes: 65536}
	markingShape = fabric.Shape{Rate: 1e8, BurstBytes: 12500, LimitBytes: 65536, MarkBytes: 32768}
	fairShape    = fabric.Shape{Rate: 1e8, BurstBytes: 12500, LimitBytes: 65536, FlowQueues: 2, QuantumBytes: fabric.FrameBytes}
)

func hasClasses(plan *fabric.Plan) bool { return plan.Classes }

// inScratch runs a test in a temporary namespace, which ends with it.
func inScratch(try func() error) func() error {
	return func() error {
		scratch, err := ns.TempNetNS()
		if err != nil {
			return fmt.Errorf("make a network namespace: %w", err)
		}
		defer func() { _ = scratch.Close() }()
		return scratch.Do(func(ns.NetNS) error { return try() })
	}
}

// tryShape gives lo the queueing of a port of that shape; where objects is not 0, only the
// first objects of it.
func tryShape(s fabric.Shape, objects int) func() error {
	return func() error {
		c, err := rtnl.Open()
		if err != nil {
			return err
		}
		defer func() { _ = c.Close() }()
		tree := queueing(&fabric.Plan{}, &s, s.Delay > 0)
		if objects > 0 {
			tree = tree[:objects]
		}
		return tryTree(c, tree)
	}
}

func nothing() error { return nil }

func tryVeth() error {
	link := netlink.NewVeth(netlink.LinkAttrs{Name: "probe0"})
	link.PeerName = "probe1"
	if err := netlink.LinkAdd(link); err != nil {
		return fmt.Errorf("create veth: %w", err)
	}
	return nil
}

func trySysctls(settings ...sysctl) func() error {
	return func() error { return writeSysctls(settings...) }
}

// tryDCTCP gives a socket the congestion control, for which the kernel loads a module
// if it has one.
func tryDCTCP() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	if err := unix.SetsockoptString(fd, unix.IPPROTO_TCP, unix.TCP_CONGESTION, "dctcp"); err != nil {
		return fmt.Errorf("set congestion control dctcp: %w", err)
	}
	return nil
}

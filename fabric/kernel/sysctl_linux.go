package kernel

import (
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/netkvlab/netkvlab/fabric"
)

// rtoMinMillis is the least TCP retransmission time: with the usual 200 ms a
// lost last segment would cost more than most transfers take.
const rtoMinMillis = 5

const (
	// fields5Tuple: both addresses, protocol and both ports.
	fields5Tuple = 0x37
	// fieldsNoDst leaves the destination and protocol out: different from
	// fields5Tuple, so that two layers without own seeds choose differently.
	fieldsNoDst = 0x31
)

// sysctl is one setting below /proc/sys/net of the thread's namespace.
type sysctl struct {
	key, value string
	// optional settings may be missing from the kernel.
	optional bool
}

// fairSenders makes a host's own queue serve its connections in turn, as a NIC serves
// queue pairs: each sends packets of one size and has at most two of them in the queue.
// Otherwise a faster connection sends larger packets, holds more of the queue,
// and so remains faster: four connections that just fill a NIC ended at
// half to twice the fair time.
func fairSenders(p *fabric.Plan, n *fabric.Node) []sysctl {
	const skbOverhead = 1 << 10 // what a packet occupies beyond its frames, at most
	segments := 0
	for _, port := range p.Ports[n.ID] {
		if s := port.GSOMaxSegs; s > 0 && (segments == 0 || s < segments) {
			segments = s // of the NIC: NVLinks have larger packets
		}
	}
	if segments == 0 {
		return nil
	}
	return []sysctl{
		{key: "ipv4/tcp_min_tso_segs", value: strconv.Itoa(segments)},
		{key: "ipv4/tcp_limit_output_bytes", value: strconv.Itoa(2 * (segments*fabric.FrameBytes + skbOverhead))},
	}
}

// sysctls are the settings of a node, in writing order.
func sysctls(p *fabric.Plan, n *fabric.Node, f Features) []sysctl {
	out := []sysctl{
		{key: "ipv6/conf/default/disable_ipv6", value: "1", optional: true},
		{key: "ipv6/conf/all/disable_ipv6", value: "1", optional: true},
		{key: "ipv4/conf/default/rp_filter", value: "0"},
		{key: "ipv4/conf/all/rp_filter", value: "0"},
		{key: "ipv4/tcp_rto_min_us", value: strconv.Itoa(rtoMinMillis * 1000), optional: true},
	}
	if !n.IsSwitch() {
		return append(out, fairSenders(p, n)...)
	}
	fields := f.AggHashFields
	if n.Kind == fabric.KindToR {
		fields = f.ToRHashFields
	}
	out = append(out,
		sysctl{key: "ipv4/ip_forward", value: "1"},
		sysctl{key: "ipv4/fib_multipath_hash_policy", value: "3"},
		sysctl{key: "ipv4/fib_multipath_hash_fields", value: strconv.Itoa(fields)})
	if f.HashSeed {
		out = append(out, sysctl{key: "ipv4/fib_multipath_hash_seed", value: strconv.FormatUint(uint64(n.HashSeed), 10)})
	}
	return out
}

// detectFeatures looks for features that not every kernel has. The files of settings
// exist in every namespace or in none.
func detectFeatures(plan *fabric.Plan, opt Options) Features {
	has := func(key string) bool {
		_, err := os.Stat("/proc/sys/net/" + key)
		return err == nil
	}
	f := Features{
		HashSeed: !opt.NoHashSeed && has("ipv4/fib_multipath_hash_seed"), RTOMinSysctl: has("ipv4/tcp_rto_min_us"),
		ToRHashFields: fields5Tuple, AggHashFields: fields5Tuple,
		Latency: plan.Delayed() && Lacks("netem") == nil,
	}
	if !f.HashSeed {
		f.AggHashFields = fieldsNoDst
	}
	return f
}

// writeSysctls writes settings in the calling thread's namespace.
func writeSysctls(settings ...sysctl) error {
	for _, s := range settings {
		fd, err := unix.Open("/proc/sys/net/"+s.key, unix.O_WRONLY|unix.O_CLOEXEC, 0)
		if s.optional && errors.Is(err, unix.ENOENT) {
			continue
		}
		if err != nil {
			return fmt.Errorf("set net/%s: %w", s.key, err)
		}
		_, err = unix.Write(fd, []byte(s.value))
		_ = unix.Close(fd)
		if err != nil {
			return fmt.Errorf("set net/%s to %s: %w", s.key, s.value, err)
		}
	}
	return nil
}

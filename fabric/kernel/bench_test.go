//go:build linux

package kernel_test

import (
	"bytes"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/netkvlab/netkvlab/fabric"
	"github.com/netkvlab/netkvlab/fabric/fabrictest"
	"github.com/netkvlab/netkvlab/fabric/kernel"
	"github.com/netkvlab/netkvlab/fabric/kernel/ktest"
	"github.com/netkvlab/netkvlab/scenarios"
)

// A fabric and the same objects made by iproute2 in batches, alternating, so
// that both meet the same other load. up-s and gone-s are the fabric's; gone is when
// nothing is left, including the kernel's own work on the links. x-up and
// x-gone are how many times longer the batches take.
func benchFabric(b *testing.B, s *scenarios.Scenario) {
	ktest.NeedFabric(b)
	name, plan := lab(b, "bench"), mustPlan(b, s, 400)
	rival := newBatches(lab(b, "rival"), plan)
	var up, gone, rivalUp, rivalGone time.Duration
	for b.Loop() {
		t0 := time.Now()
		f, err := kernel.Apply(b.Context(), name, plan, kernel.Options{})
		require.NoError(b, err)
		t1 := time.Now()
		require.NoError(b, f.Close())
		_, err = kernel.Remove(b.Context(), name, kernel.Options{})
		require.NoError(b, err)
		t2 := time.Now()
		rival.up(b)
		t3 := time.Now()
		rival.down(b)
		up, gone = up+t1.Sub(t0), gone+t2.Sub(t1)
		rivalUp, rivalGone = rivalUp+t3.Sub(t2), rivalGone+time.Since(t3)
	}
	n := float64(b.N)
	b.ReportMetric(up.Seconds()/n, "up-s")
	b.ReportMetric(gone.Seconds()/n, "gone-s")
	b.ReportMetric(rivalUp.Seconds()/up.Seconds(), "x-up")
	b.ReportMetric(rivalGone.Seconds()/gone.Seconds(), "x-gone")
	b.ReportMetric(float64(len(plan.Nodes)), "namespaces")
	b.ReportMetric(float64(len(plan.Links)), "links")
}

func BenchmarkApplyTree64(b *testing.B) { benchFabric(b, fabrictest.Paper64()) }
func BenchmarkApplyK8(b *testing.B)     { benchFabric(b, fabrictest.KAry(8)) }

// BenchmarkApplyClasses is Tree64 with traffic classes on every switch port.
func BenchmarkApplyClasses(b *testing.B) {
	s := fabrictest.Paper64Background()
	name, plan := lab(b, "bench"), mustPlan(b, s, 400)
	for b.Loop() {
		f, err := kernel.Apply(b.Context(), name, plan, kernel.Options{})
		require.NoError(b, err)
		require.NoError(b, f.Close())
		mustRemove(b, name)
	}
}

func BenchmarkVerifyK8(b *testing.B) {
	f := mustUp(b, lab(b, "verify"), mustPlan(b, fabrictest.KAry(8), 400))
	for b.Loop() {
		require.NoError(b, f.Verify(b.Context()))
	}
}

func BenchmarkCountersTree64(b *testing.B) {
	f := mustUp(b, lab(b, "counters"), mustPlan(b, fabrictest.Paper64Background(), 400))
	for b.Loop() {
		_, err := f.Counters()
		require.NoError(b, err)
	}
}

// BenchmarkCountersTree1024 is a poll of the 1024-GPU cluster: 516 nodes, 1792 ports.
func BenchmarkCountersTree1024(b *testing.B) {
	s := fabrictest.Paper64()
	s.Topology.Pods = 64
	f := mustUp(b, lab(b, "counters1024"), mustPlan(b, s, 400))
	for b.Loop() {
		_, err := f.Counters()
		require.NoError(b, err)
	}
}

// BenchmarkPath is one prediction across pods: two route look-ups.
func BenchmarkPath(b *testing.B) {
	plan := mustPlan(b, fabrictest.Paper64(), 400)
	f := mustUp(b, lab(b, "path"), plan)
	for b.Loop() {
		_, err := f.Path(kernel.Flow{Src: plan.Prefill[0], Dst: plan.Decode[7], SrcPort: 40_000, DstPort: dataPort})
		require.NoError(b, err)
	}
}

// BenchmarkPathPorts fills a pool of four ports on each of four paths.
func BenchmarkPathPorts(b *testing.B) {
	plan := mustPlan(b, fabrictest.Paper64(), 400)
	f := mustUp(b, lab(b, "pathports"), plan)
	for b.Loop() {
		_, err := f.PathPorts(kernel.Flow{Src: plan.Prefill[0], Dst: plan.Decode[7], SrcPort: 20_000, DstPort: dataPort}, 4)
		require.NoError(b, err)
	}
}

// batches is the same fabric as scripts for iproute2: one process per step for
// namespaces and links, one per namespace and step for the rest.
type batches struct {
	names, add, del []string
	links           string
	ip, tc          []string
	sysctls         [][]string
}

func newBatches(lab string, plan *fabric.Plan) *batches {
	r := &batches{names: kernel.Names(lab, plan)}
	for _, name := range r.names {
		r.add = append(r.add, "netns add "+name)
		r.del = append(r.del, "netns del "+name)
	}
	var links strings.Builder
	for i := range plan.Links {
		l := &plan.Links[i]
		fmt.Fprintf(&links, "link add name %s netns %s numtxqueues 1 numrxqueues 1 type veth peer name %s netns %s numtxqueues 1 numrxqueues 1\n",
			l.A.Name, r.names[l.A.Node], l.B.Name, r.names[l.B.Node])
	}
	r.links = links.String()
	for i := range plan.Nodes {
		r.node(plan, &plan.Nodes[i])
	}
	return r
}

func (r *batches) node(plan *fabric.Plan, n *fabric.Node) {
	var ip, tc strings.Builder
	fmt.Fprintln(&ip, "link set dev lo up")
	for _, p := range plan.Ports[n.ID] {
		if p.GSOMaxSegs > 0 {
			fmt.Fprintf(&ip, "link set dev %s gso_max_segs %d\n", p.Name, p.GSOMaxSegs)
		}
		fmt.Fprintf(&ip, "addr add %s dev %s\nlink set dev %s up\n", p.Addr, p.Name, p.Name)
		fmt.Fprintf(&tc, "qdisc add dev %s root tbf rate %dbit burst %d limit %d\n", p.Name, p.Shape.Rate, p.Shape.BurstBytes, p.Shape.LimitBytes)
	}
	for _, a := range n.Addrs {
		fmt.Fprintf(&ip, "addr add %s/32 dev lo\n", a)
	}
	for _, route := range n.Routes {
		fmt.Fprintf(&ip, "route add %s", route.Dst)
		for _, nh := range route.NextHops {
			hop := fmt.Sprintf(" via %s dev %s", nh.Via, plan.Ports[n.ID][nh.Port].Name)
			if len(route.NextHops) > 1 {
				hop = " nexthop" + hop
			}
			ip.WriteString(hop)
		}
		if route.Src.IsValid() {
			fmt.Fprintf(&ip, " src %s rto_min 5ms", route.Src)
		}
		ip.WriteString("\n")
	}
	r.ip, r.tc = append(r.ip, ip.String()), append(r.tc, tc.String())
	sysctls := []string{"net.ipv6.conf.default.disable_ipv6=1", "net.ipv6.conf.all.disable_ipv6=1", "net.ipv4.tcp_rto_min_us=5000"}
	if n.IsSwitch() {
		sysctls = append(sysctls, "net.ipv4.ip_forward=1", "net.ipv4.fib_multipath_hash_policy=3",
			"net.ipv4.fib_multipath_hash_fields=55", fmt.Sprintf("net.ipv4.fib_multipath_hash_seed=%d", n.HashSeed))
	}
	r.sysctls = append(r.sysctls, sysctls)
}

func (r *batches) up(b *testing.B) {
	batch(b, strings.Join(r.add, "\n"), "ip", "-batch", "-")
	batch(b, r.links, "ip", "-batch", "-")
	for i, name := range r.names {
		batch(b, "", "ip", append([]string{"netns", "exec", name, "sysctl", "-qw"}, r.sysctls[i]...)...)
		batch(b, r.tc[i], "tc", "-n", name, "-batch", "-")
		batch(b, r.ip[i], "ip", "-n", name, "-batch", "-")
	}
}

// down also waits until the links are gone, which the commands do not: one end
// of a pair in the last namespace vanishes with it.
func (r *batches) down(b *testing.B) {
	keep, last := r.names[0]+"-keep", r.names[len(r.names)-1]
	batch(b, "netns add "+keep+"\nlink add name watch netns "+keep+" type veth peer name gone netns "+last+"\n"+
		strings.Join(r.del, "\n"), "ip", "-batch", "-")
	deadline := time.Now().Add(patience)
	for exec.Command("ip", "-n", keep, "link", "show", "dev", "watch").Run() == nil {
		require.True(b, time.Now().Before(deadline), "the rival's links do not go")
	}
	batch(b, "netns del "+keep, "ip", "-batch", "-")
}

func batch(b *testing.B, script, command string, args ...string) {
	b.Helper()
	cmd := exec.Command(command, args...)
	cmd.Stdin = strings.NewReader(script + "\n")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	require.NoErrorf(b, cmd.Run(), "%s %v: %s", command, args, &out)
}

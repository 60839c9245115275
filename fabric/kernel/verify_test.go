//go:build linux

package kernel_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/netkvlab/netkvlab/fabric/fabrictest"
	"github.com/netkvlab/netkvlab/fabric/kernel"
	"github.com/netkvlab/netkvlab/scenarios"
)

func TestVerifyNamesWhatWasSabotaged(t *testing.T) {
	classes := smallTree()
	classes.Background = fabrictest.Paper64Background().Background
	rail := fabrictest.Rail64()
	rail.Topology.Pods = 1
	for _, tc := range []struct {
		name     string
		scenario *scenarios.Scenario
		node     string
		command  []string
		want     string
	}{
		{"a qdisc removed", smallTree(), "tor0-0", []string{"tc", "qdisc", "del", "dev", "up1", "root"}, "tor0-0 port up1: root qdisc noqueue, want tbf"},
		{"a rate changed", smallTree(), "tor0-0", []string{"tc", "qdisc", "change", "dev", "up1", "root", "handle", "1:", "tbf", "rate", "50mbit", "burst", "12112", "limit", "65536"}, "tor0-0 port up1: tbf rate 50000000 bit/s, want 125000000"},
		{"a burst changed", smallTree(), "tor0-0", []string{"tc", "qdisc", "change", "dev", "up1", "root", "handle", "1:", "tbf", "rate", "125mbit", "burst", "50000", "limit", "78125"}, "tor0-0 port up1: tbf burst 50000 bytes, want 12112"},
		{"a limit changed", smallTree(), "core0-0", []string{"tc", "qdisc", "change", "dev", "d0", "root", "handle", "1:", "tbf", "rate", "62500kbit", "burst", "12112", "limit", "30000"}, "core0-0 port d0: tbf limit 30000 bytes, want 65536"},
		{"a route deleted", smallTree(), "tor0-0", []string{"ip", "route", "del", "default"}, "tor0-0 route 0.0.0.0/0: is missing"},
		{"a route with a next hop less", smallTree(), "agg0-0", []string{"ip", "route", "replace", "default", "via", "10.128.0.35", "dev", "up1"}, "agg0-0 route 0.0.0.0/0: next hops"},
		{"a host route elsewhere", smallTree(), "tor1-1", []string{"ip", "route", "add", "blackhole", "10.0.0.1/32"}, "tor1-1 route 10.0.0.1/32: is not planned"},
		{"a foreign route", smallTree(), "tor1-1", []string{"ip", "route", "add", "10.99.0.0/16", "dev", "up0"}, "tor1-1 route 10.99.0.0/16: is not planned"},
		{"a link down", smallTree(), "agg1-0", []string{"ip", "link", "set", "dev", "up0", "down"}, "agg1-0 port up0: interface is down, want up"},
		{"a link deleted", smallTree(), "p0", []string{"ip", "link", "del", "dev", "up0"}, "tor0-0 port d0: interface is missing"},
		{"an MTU", smallTree(), "d3", []string{"ip", "link", "set", "dev", "up0", "mtu", "9000"}, "d3 port up0: mtu 9000, want 1500"},
		{"a segment bound", smallTree(), "p1", []string{"ip", "link", "set", "dev", "up0", "gso_max_segs", "40"}, "p1 port up0: gso_max_segs 40, want 4"},
		{"an address", smallTree(), "p1", []string{"ip", "addr", "del", "10.0.0.2/32", "dev", "lo"}, "p1 lo: address 10.0.0.2/32 is missing"},
		{"an address too many", smallTree(), "p1", []string{"ip", "addr", "add", "10.0.0.77/32", "dev", "lo"}, "p1 addresses: 10.0.0.77/32 on interface 1 is not planned"},
		{"a neighbour", smallTree(), "p1", []string{"ip", "neigh", "flush", "nud", "permanent"}, "p1 port up0: neighbour"},
		{"a hash seed", smallTree(), "core1-1", []string{"sysctl", "-qw", "net.ipv4.fib_multipath_hash_seed=7"}, `core1-1 sysctl net.ipv4.fib_multipath_hash_seed: is "7"`},
		{"a hash policy", smallTree(), "tor0-1", []string{"sysctl", "-qw", "net.ipv4.fib_multipath_hash_policy=1"}, `tor0-1 sysctl net.ipv4.fib_multipath_hash_policy: is "1", want 3`},
		{"forwarding", smallTree(), "agg0-0", []string{"sysctl", "-qw", "net.ipv4.ip_forward=0"}, `agg0-0 sysctl net.ipv4.ip_forward: is "0", want 1`},
		{"a class's rate", classes, "tor0-0", []string{"tc", "class", "change", "dev", "up0", "parent", "1:1", "classid", "1:20", "htb", "rate", "1mbit", "ceil", "125mbit", "burst", "12112", "cburst", "12112", "quantum", "3028", "prio", "1"}, "tor0-0 port up0: htb class 1:20 rate 1000000 bit/s, want 30000000"},
		{"a filter", classes, "tor0-0", []string{"tc", "filter", "del", "dev", "up0"}, "tor0-0 port up0: u32 filter of dscp 10 to class 1:10 is missing"},
		{"a class's queue", classes, "core0-0", []string{"tc", "qdisc", "change", "dev", "d0", "parent", "1:10", "handle", "10:", "bfifo", "limit", "1000"}, "core0-0 port d0: bfifo of class 1:10 limit 1000 bytes, want 65536"},
		{"a rule", rail, "p0", []string{"ip", "rule", "del", "priority", "1000", "from", "10.0.0.3"}, "p0 rule from 10.0.0.3 table 102: is missing"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			name := lab(t, "sabotage")
			f := mustUp(t, name, mustPlan(t, tc.scenario, 400))
			require.NoError(t, f.Verify(t.Context()))
			mustRun(t, "ip", append([]string{"netns", "exec", name + "." + tc.node}, tc.command...)...)
			err := f.Verify(t.Context())
			var differs *kernel.DiffersError
			require.ErrorAs(t, err, &differs)
			assert.True(t, slices.ContainsFunc(differs.Differences, func(d kernel.Difference) bool {
				return strings.HasPrefix(d.String(), tc.want) && strings.HasPrefix(tc.want, d.Node+" "+d.Object+":")
			}), "no difference is %q: %v", tc.want, err)
			t.Log(err)
		})
	}
}

func TestADamagedLabIsDescribedAndRemoved(t *testing.T) {
	name, plan := lab(t, "damage"), mustPlan(t, smallTree(), 400)
	f := mustUp(t, name, plan)
	whole, err := kernel.Inspect(t.Context(), name, plan, kernel.Options{})
	require.NoError(t, err)
	assert.True(t, whole.None(), whole.String())
	require.NoError(t, f.Close())

	mustRun(t, "ip", "netns", "del", name+".agg0-0")
	mustRun(t, "ip", "-n", name+".tor1-0", "link", "del", "dev", "up0")
	_, err = kernel.Open(t.Context(), name, plan, kernel.Options{})
	var damaged *kernel.DamagedError
	require.ErrorAs(t, err, &damaged)
	assert.Equal(t, []string{name + ".agg0-0"}, damaged.Damage.Namespaces)

	damage, err := kernel.Inspect(t.Context(), name, plan, kernel.Options{})
	require.NoError(t, err)
	assert.Equal(t, []string{name + ".agg0-0"}, damage.Namespaces)
	assert.Contains(t, damage.Links, "tor1-0 port up0")
	assert.Contains(t, damage.Links, "agg1-0 port d0")
	mustRemove(t, name)
	assert.Empty(t, named(t, name))
}

func TestInspectOfNothingLacksEverything(t *testing.T) {
	plan := mustPlan(t, smallTree(), 400)
	damage, err := kernel.Inspect(t.Context(), lab(t, "nothing"), plan, kernel.Options{})
	require.NoError(t, err)
	assert.Len(t, damage.Namespaces, len(plan.Nodes))
}

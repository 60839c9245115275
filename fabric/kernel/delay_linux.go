package kernel

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/netkvlab/netkvlab/fabric"
	"github.com/netkvlab/netkvlab/fabric/kernel/internal/rtnl"
)

// A port with a delay has netem at its root and its shaper as netem's child:
// packets wait out the delay first and then join the shaper's queue, whose rate,
// limit and counters are the same as without. The other way round, netem as the
// shaper's child, packets under way would count as backlog and take room from it.
const (
	delayHandle = 2 << 16
	delayClass  = delayHandle | 1 // netem's only class, where its child hangs
	// delayPackets is how many packets may be under way: more than any delay lets
	// gather, since netem drops what is beyond.
	delayPackets     = 1_000_000
	tcaNetemDelay64  = 10
	sizeofNetemQopt  = 24
	netemLossOffset  = 8 // loss, gap, duplicate, jitter follow latency and limit
	netemLimitOffset = 4
)

// addDelay makes netem a port's root. The old field for the delay, in ticks and 32
// bits wide, holds 274 s; the kernel prefers the new one, in nanoseconds.
func addDelay(b *rtnl.Batch, index uint32, d time.Duration, name string) {
	b.Begin(unix.RTM_NEWQDISC, createNew, "add netem to", name)
	tcmsg(b, index, delayHandle, handleRoot, 0)
	b.AttrString(unix.TCA_KIND, "netem")
	b.Nest(unix.TCA_OPTIONS)
	b.U32(uint32(d/tickNanoseconds), delayPackets, 0, 0, 0, 0)
	b.AttrU64(tcaNetemDelay64, uint64(d))
	b.End()
}

// shaperParent is where a port's shaper hangs: at the root, or under its delay.
func shaperParent(delayed bool) uint32 {
	if delayed {
		return delayClass
	}
	return handleRoot
}

// delayed reports whether a port's delay is there to be emulated, and can be.
func (f *Fabric) delayed(p *fabric.Port) bool { return f.features.Latency && p.Shape.Delay > 0 }

// checkDelay compares tc_netem_qopt and the wide delay.
func checkDelay(options []byte, want time.Duration) (diffs []string) {
	got := time.Duration(rtnl.U64(rtnl.Find(rtnl.Skip(options, sizeofNetemQopt), tcaNetemDelay64), 0))
	if got != want {
		diffs = append(diffs, fmt.Sprintf("delay %v, want %v", got, want))
	}
	if limit := rtnl.U32(options, netemLimitOffset); limit != delayPackets {
		diffs = append(diffs, fmt.Sprintf("limit %d packets, want %d", limit, delayPackets))
	}
	for i, what := range []string{"loses", "reorders", "duplicates", "delays by chance"} {
		if rtnl.U32(options, netemLossOffset+4*i) != 0 {
			diffs = append(diffs, what+" packets")
		}
	}
	return diffs
}

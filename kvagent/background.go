package kvagent

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"time"
)

// The kinds of background traffic.
const (
	backgroundUDP   = "udp"
	backgroundTCP   = "tcp"
	backgroundOnOff = "tcp-onoff"
)

// StageBackground is the stage of the Failed event that reports lost background traffic. The event belongs to no
// request; ignore its request number.
const StageBackground = "background"

const (
	// Ethernet frames of full size, as a qdisc counts them: 1500 bytes of packet and 14 of header, of which TCP
	// (with timestamps) and UDP leave so much for payload.
	frameBytes      = 1514
	udpPayloadBytes = 1472
	tcpPayloadBytes = 1448

	// pacingTick is how often a source checks what is due: its bursts are what the rate gives in this time, far
	// below a switch's buffer.
	pacingTick = time.Millisecond
	// maxCatchUp bounds what a source catches up on after a stall (of the host, or by a full window): a source keeps
	// a rate, it does not work off a backlog.
	maxCatchUp = 10 * time.Millisecond
	// onOffMean is the mean length of a period, paper time.
	onOffMean = 200 * time.Millisecond
)

// background runs the session's sources while they are switched on. One goroutine calls on and off; off joins all.
type background struct {
	*trial
	stop context.CancelFunc // nil when off
	wg   sync.WaitGroup
}

func (b *background) on() {
	if b.stop != nil {
		return
	}
	ctx, stop := context.WithCancel(b.ctx)
	b.stop = stop
	for i, f := range b.cfg.background {
		b.wg.Go(func() {
			if err := b.run(ctx, f); err != nil && ctx.Err() == nil {
				err = fmt.Errorf("background flow %d (%s to %s): %w", i, f.GetKind(), f.to, err)
				b.out.put(transferKey{}.failure(b.clock.now(), StageBackground, err, 0))
			}
		})
	}
}

func (b *background) off() {
	if b.stop == nil {
		return
	}
	b.stop()
	b.wg.Wait()
	b.stop = nil
}

// run sends full frames at a flow's rate, all the time or in periods. The kernel may cut several datagrams out of
// one write: then they cross the fabric as one packet, like TCP's. The network may lose datagrams; a full local
// queue loses them as well.
func (b *background) run(ctx context.Context, f backgroundFlow) error {
	c, err := b.dial(ctx, f)
	if err != nil {
		return err
	}
	// A write into a full window is ended by closing the connection.
	stop := context.AfterFunc(ctx, func() { _ = c.Close() })
	defer func() {
		stop()
		_ = c.Close()
	}()
	p := pacer{bytesPerSecond: f.GetBitsPerSecond() / 8}
	var periods *onOff
	segments, payloadBytes, udp := max(1, int(f.GetSegments())), tcpPayloadBytes, f.GetKind() == backgroundUDP
	if f.GetKind() == backgroundOnOff {
		p.bytesPerSecond *= 2
		periods = newOnOff(f, b.clock.scale)
	}
	if udp {
		payloadBytes = udpPayloadBytes
		if segments > 1 && segmentDatagrams(c, udpPayloadBytes) != nil {
			segments = 1 // before Linux 4.18
		}
	} else if err := (&frame{kind: kindBackground}).write(c, nil); err != nil {
		return err
	}
	payload, unit := make([]byte, segments*payloadBytes), segments*frameBytes
	p.sentUntil = Monotonic()
	for {
		for periods != nil && Monotonic() >= periods.onTill {
			if err := b.alarms.sleepUntil(ctx, periods.next()); err != nil {
				return err
			}
			p.sentUntil = Monotonic()
		}
		for range p.take(Monotonic(), unit) {
			n, err := c.Write(payload)
			b.plane.count.backgroundOut.Add(int64(n))
			if err != nil && (!udp || !errors.Is(err, syscall.ENOBUFS)) {
				return err
			}
		}
		if err := b.alarms.sleepUntil(ctx, p.next(Monotonic(), unit)); err != nil {
			return err
		}
	}
}

func (b *background) dial(ctx context.Context, f backgroundFlow) (net.Conn, error) {
	if len(b.cfg.net.addrs) == 0 {
		return nil, errors.New("this agent has no address to send from")
	}
	from := netip.AddrPortFrom(b.cfg.net.addrs[0], uint16(f.GetSourcePort()))
	if f.GetKind() != backgroundUDP {
		return socketOptions{congestion: b.cfg.net.options.congestion, dscp: int(f.GetDscp())}.dial(ctx, from, f.to)
	}
	d := net.Dialer{Control: socketOptions{dscp: int(f.GetDscp())}.control, LocalAddr: net.UDPAddrFromAddrPort(from)}
	return d.DialContext(ctx, "udp4", f.to.String())
}

// pacer computes how many bytes are due at a rate. It forgets what was missed for longer than maxCatchUp and two units.
type pacer struct {
	bytesPerSecond float64
	sentUntil      int64 // monotonic time up to which everything is sent
}

// take returns how many whole units of this size are due, and counts them as sent.
func (p *pacer) take(now int64, unit int) int {
	catchUp := max(int64(maxCatchUp), 2*p.span(unit)) // a slow source needs longer for one unit
	p.sentUntil = max(p.sentUntil, now-catchUp)
	n := int(float64(now-p.sentUntil) * p.bytesPerSecond / 1e9 / float64(unit))
	p.sentUntil += p.span(n * unit)
	return n
}

// next is when to check again: when a unit is due and a tick has passed.
func (p *pacer) next(now int64, unit int) int64 {
	return max(now+int64(pacingTick), p.sentUntil+p.span(unit))
}

// span is how long this number of bytes takes, in ns.
func (p *pacer) span(bytes int) int64 { return int64(float64(bytes) / p.bytesPerSecond * 1e9) }

// onOff alternates exponential periods of activity and silence. The flow's addresses are the seed of their draws.
type onOff struct {
	rng    *rand.Rand
	scale  float64
	onTill int64 // monotonic
}

func newOnOff(f backgroundFlow, scale float64) *onOff {
	h := fnv.New64a()
	_, _ = fmt.Fprintf(h, "%s %d", f.to, f.GetSourcePort()) // a hash write never fails
	o := &onOff{rng: rand.New(rand.NewPCG(h.Sum64(), 1)), scale: scale, onTill: Monotonic()}
	if o.rng.Uint64()&1 == 0 { // half of the sources begin with silence
		o.onTill += o.period()
	}
	return o
}

func (o *onOff) period() int64 {
	return int64(math.Round(o.rng.ExpFloat64() * float64(onOffMean) * o.scale))
}

// next is when the silence ends that follows this period of activity.
func (o *onOff) next() int64 {
	end := o.onTill + o.period()
	o.onTill = end + o.period()
	return end
}

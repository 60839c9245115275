package kvagent

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/netkvlab/netkvlab/kvagent/control"
)

// The kinds of background traffic.
const (
	backgroundUDP   = "udp"
	backgroundTCP   = "tcp"
	backgroundOnOff = "tcp-onoff"
)

// StageBackground is the stage of the Failed event that reports lost background traffic. The
// event belongs to no request; ignore its request number.
const StageBackground = "background"

const (
	// Ethernet frames of full size, as a qdisc counts them: 1500 bytes of packet and
	// 14 of header, of which TCP (with timestamps) and UDP leave so much for payload.
	frameBytes      = 1514
	udpPayloadBytes = 1472
	tcpPayloadBytes = 1448

	// pacingTick is how often a source checks what is due: its bursts are what
	// the rate gives in this time, far below a switch's buffer.
	pacingTick = time.Millisecond
	// pacingDebt bounds what a source catches up on after a stall (of the host, or
	// by a full window): a source keeps a rate, it does not work off a backlog.
	pacingDebt = 10 * time.Millisecond
	// onOffMean is the mean length of a period, paper time.
	onOffMean = 200 * time.Millisecond
)

// background runs the session's sources while they are switched on. on and
// off are called from one goroutine; off joins everything.
type background struct {
	cfg    *config
	clock  paperClock
	alarms *alarms
	emit   func(*control.Event)
	sent   *atomic.Int64
	ctx    context.Context

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
				err = fmt.Errorf("background flow %d (%s to %s): %w", i, f.kind, f.to, err)
				b.emit(failure(transferKey{}, b.clock.now(), StageBackground, err, 0))
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
	if f.kind == backgroundUDP {
		return b.datagrams(ctx, f, c)
	}
	header := frame{kind: kindBackground}
	var h [frameSize]byte
	header.put(&h)
	if _, err := c.Write(h[:]); err != nil {
		return err
	}
	return b.bytes(ctx, f, c)
}

func (b *background) dial(ctx context.Context, f backgroundFlow) (net.Conn, error) {
	if len(b.cfg.net.addrs) == 0 {
		return nil, errors.New("this agent has no address to send from")
	}
	from := netip.AddrPortFrom(b.cfg.net.addrs[0], f.sourcePort)
	if f.kind != backgroundUDP {
		o := socketOptions{congestion: b.cfg.net.options.congestion, dscp: f.dscp}
		return o.dial(ctx, from, f.to)
	}
	d := net.Dialer{Control: socketOptions{dscp: f.dscp}.control, LocalAddr: net.UDPAddrFromAddrPort(from)}
	return d.DialContext(ctx, "udp4", f.to.String())
}

// pacer computes how many bytes are due at a rate. It forgets what was missed for longer
// than pacingDebt, or than two units if that is longer.
type pacer struct {
	bytesPerSecond float64
	paid           int64 // monotonic time up to which everything is sent
}

// take returns how many whole units of this size are due, and counts them as sent.
func (p *pacer) take(now int64, unit int) int {
	debt := max(int64(pacingDebt), 2*p.span(unit)) // a slow source needs longer for one unit
	p.paid = max(p.paid, now-debt)
	n := int(float64(now-p.paid) * p.bytesPerSecond / 1e9 / float64(unit))
	p.paid += p.span(n * unit)
	return n
}

// next is when to check again: when a unit is due and a tick has passed.
func (p *pacer) next(now int64, unit int) int64 {
	return max(now+int64(pacingTick), p.paid+p.span(unit))
}

// span is how long this number of bytes takes, in ns.
func (p *pacer) span(bytes int) int64 { return int64(float64(bytes) / p.bytesPerSecond * 1e9) }

// datagrams sends full frames at a constant rate, several at a time where the kernel
// cuts them: then they cross the fabric as one packet, like TCP's. The network may
// lose them; a full local queue loses them as well.
func (b *background) datagrams(ctx context.Context, f backgroundFlow, c net.Conn) error {
	p := pacer{bytesPerSecond: f.bitsPerSecond / 8, paid: monotonic()}
	segments := f.segments
	if segments > 1 && segmentDatagrams(c, udpPayloadBytes) != nil {
		segments = 1 // before Linux 4.18
	}
	payload, unit := make([]byte, segments*udpPayloadBytes), segments*frameBytes
	for {
		for range p.take(monotonic(), unit) {
			n, err := c.Write(payload)
			if err != nil && !errors.Is(err, syscall.ENOBUFS) {
				return err
			}
			b.sent.Add(int64(n))
		}
		if err := b.alarms.sleepUntil(ctx, p.next(monotonic(), unit)); err != nil {
			return err
		}
	}
}

// bytes sends a TCP stream at a rate, all the time or in periods.
func (b *background) bytes(ctx context.Context, f backgroundFlow, c net.Conn) error {
	rate := f.bitsPerSecond / 8 * tcpPayloadBytes / frameBytes
	var periods *onOff
	if f.kind == backgroundOnOff {
		rate *= 2
		periods = newOnOff(f, b.clock)
	}
	p := pacer{bytesPerSecond: rate, paid: monotonic()}
	payload := make([]byte, f.segments*tcpPayloadBytes)
	for {
		if periods != nil {
			waited, err := periods.wait(ctx, b.alarms)
			if err != nil {
				return err
			}
			if waited {
				p.paid = monotonic()
			}
		}
		for range p.take(monotonic(), len(payload)) {
			n, err := c.Write(payload)
			b.sent.Add(int64(n))
			if err != nil {
				return err
			}
		}
		if err := b.alarms.sleepUntil(ctx, p.next(monotonic(), len(payload))); err != nil {
			return err
		}
	}
}

// onOff alternates exponential periods of activity and silence. The draws follow
// from the flow's addresses, so they are the same in every run.
type onOff struct {
	rng    *rand.Rand
	clock  paperClock
	onTill int64 // monotonic
}

func newOnOff(f backgroundFlow, clock paperClock) *onOff {
	h := fnv.New64a()
	_, _ = fmt.Fprintf(h, "%s %d", f.to, f.sourcePort) // a hash write never fails
	o := &onOff{rng: rand.New(rand.NewPCG(h.Sum64(), 1)), clock: clock, onTill: monotonic()}
	if o.rng.Uint64()&1 == 0 { // half of the sources begin with silence
		o.onTill += o.period()
	}
	return o
}

func (o *onOff) period() int64 {
	return int64(o.clock.realSpan(time.Duration(o.rng.ExpFloat64() * float64(onOffMean))))
}

// wait returns at once in an active period, else sleeps through the silence.
func (o *onOff) wait(ctx context.Context, a *alarms) (waited bool, err error) {
	for monotonic() >= o.onTill {
		off := o.onTill + o.period()
		o.onTill = off + o.period()
		if err := a.sleepUntil(ctx, off); err != nil {
			return false, err
		}
		waited = true
	}
	return waited, nil
}

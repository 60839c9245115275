// Package calibrate measures what this host carries, in a scratch fabric made of the same parts
// as labs: packet-hops per second and core at the grains of plans, the throughput of one flow
// and of flows that saturate the host, and how late timers are. It takes about eight seconds,
// uses its own namespaces, and removes them also when it is interrupted. Start reading at
// Measure.
package calibrate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/netkvlab/netkvlab/fabric"
	"github.com/netkvlab/netkvlab/fabric/kernel"
	"github.com/netkvlab/netkvlab/internal/host"
	"github.com/netkvlab/netkvlab/kvagent"
	"github.com/netkvlab/netkvlab/scenarios"
)

// Lab is the lab name of the scratch fabric's namespaces. After a killed calibration `netkvlab
// ps` shows them and `netkvlab down` removes them.
const Lab = "netkvlab-calibration"

const (
	// settle is how long flows run before they are counted, so that slow start is over.
	settle = 250 * time.Millisecond
	// part is the length of one measurement. Of several (parts) the best counts, since other
	// processes can only make one worse.
	part, parts = 300 * time.Millisecond, 3
	// busyRefused is the share of the CPUs used by other programs from which measuring is refused.
	busyRefused = 0.25
	// timers is the number of wake-ups that are measured, one per millisecond.
	timers = 400
	// undoTime bounds the clean-up after an interruption.
	undoTime = 20 * time.Second
)

// scratch is the measured fabric, with the paper's rates. It has at least two pods, so that
// flows take six hops.
const scratch = `
name: ` + Lab + `
topology: {pods: %d, racksPerPod: 2, serversPerRack: 1, gpusPerServer: 8, nicRate: 100Gbps, aggsPerPod: 2, coresPerAgg: 2, oversubscription: {rack: 2, pod: 4}}
placement: {unit: rack, pattern: [prefill, decode]}
model: {preset: llama-3-70b, tensorParallel: 4}
workload: {kind: synthetic, synthetic: {profile: rag, requests: 1, rate: 1/s}}
policies: [rr]
`

// The measured scales: links from 10 Mbit/s, where plans have two segments per burst, to 250
// Mbit/s, and one scale at which the links are too fast for any host. Slower links need more
// pods to keep the host busy.
var (
	steps = []struct {
		scale float64
		pods  int
	}{{2500, 8}, {1000, 6}, {400, 3}, {200, 2}, {100, 2}}
	timed     = 200.0 // where timers are measured: a load that two cores still carry
	saturated = 5.0
)

// measurement is a calibration in progress.
type measurement struct {
	*host.Calibration
	busy []float64 // busy cores per step
}

// Measure calibrates this host. progress receives a line for each step.
func Measure(ctx context.Context, progress func(string)) (*host.Calibration, error) {
	blank, err := host.NewCalibration(host.Proc, time.Now())
	if err != nil {
		return nil, err
	}
	c := &measurement{Calibration: blank}
	progress("calibrating: the idle host")
	var before, after float64
	if c.TimerIdle, before, err = others(ctx); err != nil {
		return nil, err
	}
	for _, step := range steps {
		progress(fmt.Sprintf("calibrating: links of the paper's rates / %g", step.scale))
		work := func(ctx context.Context, r *rig) error { return c.step(ctx, r, step.scale == timed) }
		if err := c.onFabric(ctx, step.pods, step.scale, work); err != nil {
			return nil, err
		}
	}
	progress("calibrating: as many packets as the host carries")
	if err := c.onFabric(ctx, 2, saturated, c.saturate); err != nil {
		return nil, err
	}
	if _, after, err = others(ctx); err != nil { // programs that started meanwhile used CPU too
		return nil, err
	}
	c.Others = max(before, after)
	// Subtract the CPU time that other programs used for certain.
	for i := range c.Steps {
		s := &c.Steps[i]
		s.HopsPerCore *= c.busy[i] / max(c.busy[i]-min(before, after)*float64(c.CPUs), c.busy[i]/2)
	}
	return c.Calibration, nil
}

// others measures, while no flows run, how much CPU other programs use and how late timers are:
// one after the other, because a timer costs CPU time too. It is an error if they use too much.
func others(ctx context.Context) (host.Lateness, float64, error) {
	idle, _, err := watched(ctx, func(ctx context.Context) (struct{}, error) { return struct{}{}, pause(ctx, part) })
	if err != nil {
		return host.Lateness{}, 0, err
	}
	late, err := kvagent.TimerLateness(ctx, timers, time.Millisecond)
	if err != nil {
		return host.Lateness{}, 0, err
	}
	if 1-idle > busyRefused {
		return host.Lateness{}, 0, fmt.Errorf("other programs use %.0f%% of the CPUs: calibrate when the host is quiet", 100*(1-idle))
	}
	return lateness(late), 1 - idle, nil
}

// watched returns the host's idle share while do runs.
func watched[T any](ctx context.Context, do func(context.Context) (T, error)) (idle float64, out T, err error) {
	w := host.NewWatch(host.Proc)
	w.Start()
	out, err = do(ctx)
	w.Stop()
	l := w.Load()
	return l.Idle, out, errors.Join(err, l.Err)
}

// onFabric makes the scratch fabric at a scale, calls work and removes the fabric, also when the
// context ends.
func (c *measurement) onFabric(ctx context.Context, pods int, scale float64, work func(context.Context, *rig) error) (err error) {
	s, err := scenarios.Parse(Lab, fmt.Appendf(nil, scratch, pods))
	if err != nil {
		return err
	}
	s.Scale.Rate = scale
	// No trial runs on this fabric, so a trials.Cluster is not needed.
	plan, err := fabric.New(s, s.Scale)
	if err != nil {
		return err
	}
	f, err := kernel.Apply(ctx, Lab, plan, kernel.Options{})
	if err != nil {
		return fmt.Errorf("calibrate: %w (`netkvlab down %s` removes an earlier one)", err, Lab)
	}
	defer func() {
		undo, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTime)
		defer cancel()
		errClose := f.Close() // open handles would keep the namespaces alive
		_, errRemove := kernel.Remove(undo, Lab, kernel.Options{})
		err = errors.Join(err, errClose, errRemove)
	}()
	r := &rig{fabric: f, plan: plan}
	defer r.stop()
	return work(ctx, r)
}

// step fills half of the links, and computes what a core forwards from the packets and the idle
// time. A run leaves about as much idle time. A CPU that is never idle needs no time to wake up
// and forwards more or less than that, which depends on the host.
func (c *measurement) step(ctx context.Context, r *rig, timed bool) error {
	all := r.pairs()
	half := all[:0]
	for i := 0; i < len(all); i += 2 {
		half = append(half, all[i])
	}
	if err := r.start(ctx, half); err != nil {
		return err
	}
	perCore, cores := 0.0, 0.0
	for range parts {
		l, err := r.measure(ctx)
		if err != nil {
			return err
		}
		busy := max(1-l.Idle, 0.01) * float64(c.CPUs)
		if hops := l.HopsPerSecond / busy; hops > perCore {
			perCore, cores = hops, busy
		}
	}
	if timed {
		late, err := kvagent.TimerLateness(ctx, timers, time.Millisecond)
		if err != nil {
			return err
		}
		c.TimerLoaded = lateness(late)
	}
	narrowest, segments := host.Grain(r.plan)
	c.Steps = append(c.Steps, host.Step{Rate: narrowest, Segments: segments, HopsPerCore: perCore})
	c.busy = append(c.busy, cores)
	return nil
}

// saturate measures one flow, and then all flows.
func (c *measurement) saturate(ctx context.Context, r *rig) error {
	pairs := r.pairs()
	for _, m := range []struct {
		pairs []pair
		into  *host.Throughput
	}{{pairs[:1], &c.OneFlow}, {pairs[1:], &c.Saturated}} {
		err := r.start(ctx, m.pairs)
		if err == nil {
			*m.into, err = r.measure(ctx)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

func lateness(late []time.Duration) host.Lateness {
	slices.Sort(late)
	us := func(i int) float64 { return float64(late[i]) / float64(time.Microsecond) }
	n := len(late)
	return host.Lateness{P50: us(n / 2), P99: us(n * 99 / 100), Max: us(n - 1)}
}

package packetworld

import (
	"context"
	"sync"
	"time"

	"github.com/netkvlab/netkvlab/internal/fidelity/telemetry"
	"github.com/netkvlab/netkvlab/internal/results"
	"github.com/netkvlab/netkvlab/internal/trials"
	"github.com/netkvlab/netkvlab/scenarios"
)

// oracle polls the emulated ports once per refresh period and sends samples to the trial.
type oracle struct {
	cancel context.CancelFunc
	done   chan struct{}
	err    error
	rows   []telemetry.Row
	ports  []telemetry.PortRef
	meter  *telemetry.Meter
}

// startOracle begins polling; samples reach the trial after the configured staleness.
func startOracle(ctx context.Context, w *World, t trials.Trial, tr *Trial) *oracle {
	s := w.cluster.Scenario
	ctx, cancel := context.WithCancel(ctx)
	o := &oracle{cancel: cancel, done: make(chan struct{}), ports: telemetry.Ports(w.cluster.Plan)}
	o.meter = telemetry.New(telemetry.Options{
		Ports: o.ports, Separate: s.Oracle.Separation != scenarios.SeparationNone, Ours: !s.Background.Enabled(),
		Noise: s.Oracle.Noise, Loss: s.Oracle.Loss, Seed: t.Seed, Staleness: s.Oracle.Staleness,
	})
	samples := make(chan [4]float64)
	tr.Samples = samples
	go o.poll(ctx, w, samples)
	return o
}

func (o *oracle) poll(ctx context.Context, w *World, out chan<- [4]float64) {
	defer close(o.done)
	var late sync.WaitGroup
	defer late.Wait()
	knobs, scale := w.cluster.Scenario.Oracle, w.cluster.Plan.Scale.Time
	stale := time.Duration(float64(knobs.Staleness) * scale)
	tick := time.NewTicker(time.Duration(float64(knobs.Refresh) * scale))
	defer tick.Stop()
	start := time.Now()
	for last := false; ; {
		now, err := w.counters()
		if err != nil {
			o.err = err
			return
		}
		real := time.Since(start)
		congestion, rows, ok := o.meter.Poll(real, time.Duration(float64(real)/scale), now)
		o.rows = append(o.rows, rows...)
		if ok {
			late.Go(func() { deliver(ctx, out, congestion, stale) })
		}
		if last {
			return
		}
		select {
		case <-ctx.Done():
			last = true // the series ends with the trial's last byte, not at the tick before it
		case <-tick.C:
		}
	}
}

// deliver hands a sample over after its delay, unless the trial ends first.
func deliver(ctx context.Context, out chan<- [4]float64, congestion [4]float64, delay time.Duration) {
	select {
	case <-ctx.Done():
		return
	case <-time.After(delay):
	}
	select {
	case <-ctx.Done():
	case out <- congestion:
	}
}

// stop ends the polling.
func (o *oracle) stop() error {
	o.cancel()
	<-o.done
	return o.err
}

// links returns the time series of all links in a trial.
func (o *oracle) links(t trials.Trial) []results.LinkSample {
	out := make([]results.LinkSample, len(o.rows))
	for i, row := range o.rows {
		p := o.ports[row.Port]
		direction := "up"
		if p.Hop.Reverse {
			direction = "down"
		}
		out[i] = results.LinkSample{
			TimeMS: results.MS(row.At), World: t.World, Policy: trials.Label(t.Policy), Seed: t.Seed,
			Link: p.Name, Direction: direction, BytesEmulated: int64(row.Bytes), Utilization: row.Utilization,
			Drops: int64(row.Drops), BacklogBytes: int64(row.Backlog), Marks: int64(row.Marks),
		}
	}
	return out
}

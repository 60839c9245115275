package experiment

import (
	"context"
	"sync"
	"time"

	"github.com/netkvlab/netkvlab/internal/packet"
	"github.com/netkvlab/netkvlab/internal/results"
	"github.com/netkvlab/netkvlab/internal/telemetry"
	"github.com/netkvlab/netkvlab/internal/trials"
	"github.com/netkvlab/netkvlab/scenarios"
)

// oracle polls the emulated ports at the refresh period and tells the trial.
type oracle struct {
	cancel context.CancelFunc
	done   chan struct{}
	err    error
	rows   []telemetry.Row
	ports  []telemetry.PortRef
	meter  *telemetry.Meter
	flush  func([]telemetry.PortRef, []telemetry.Row)
}

// startOracle begins polling; samples reach the trial after the staleness knob.
func (r *run) startOracle(ctx context.Context, t trials.Trial, tr *packet.Trial) *oracle {
	s := r.opt.Scenario
	ctx, cancel := context.WithCancel(ctx)
	o := &oracle{cancel: cancel, done: make(chan struct{}), ports: telemetry.Ports(r.plan)}
	o.meter = telemetry.New(telemetry.Options{
		Ports: o.ports, Separate: s.Oracle.Separation != scenarios.SeparationNone, Ours: !s.Background.Enabled(),
		Noise: s.Oracle.Noise, Loss: s.Oracle.Loss, Seed: t.Seed,
		Staleness: s.Oracle.Staleness,
	})
	scale := r.plan.Scale.Time
	samples := make(chan packet.Sample)
	tr.Samples = samples
	o.flush = func(ports []telemetry.PortRef, rows []telemetry.Row) { r.writeLinks(t, ports, rows) }
	go o.poll(ctx, r, o.meter, samples, time.Duration(float64(s.Oracle.Refresh)*scale), time.Duration(float64(s.Oracle.Staleness)*scale), scale)
	return o
}

func (o *oracle) poll(ctx context.Context, r *run, m *telemetry.Meter, out chan<- packet.Sample, every, stale time.Duration, scale float64) {
	defer close(o.done)
	var late sync.WaitGroup
	defer late.Wait()
	tick := time.NewTicker(every)
	defer tick.Stop()
	start := time.Now()
	for last := false; ; {
		now, err := r.counters()
		if err != nil {
			o.err = err
			return
		}
		real := time.Since(start)
		congestion, rows, ok := m.Poll(real, time.Duration(float64(real)/scale), now)
		o.rows = append(o.rows, rows...)
		if rows != nil {
			late.Add(1)
			go func() {
				defer late.Done()
				deliver(ctx, out, packet.Sample{Congestion: congestion, OK: ok}, stale)
			}()
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
func deliver(ctx context.Context, out chan<- packet.Sample, s packet.Sample, delay time.Duration) {
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return
	case <-timer.C:
	}
	select {
	case <-ctx.Done():
	case out <- s:
	}
}

// stop ends the polling and gives the link series away: not before, since that costs
// CPU that the trial should have.
func (o *oracle) stop() error {
	o.cancel()
	<-o.done
	if o.err != nil {
		return o.err
	}
	o.flush(o.ports, o.rows)
	return nil
}

// writeLinks puts a trial's link series on its page.
func (r *run) writeLinks(t trials.Trial, ports []telemetry.PortRef, rows []telemetry.Row) {
	for _, row := range rows {
		p := ports[row.Port]
		direction := "up"
		if p.Hop.Reverse {
			direction = "down"
		}
		r.page.links = append(r.page.links, results.LinkSample{
			TimeMS: results.MS(row.At), World: t.World, Policy: trials.Label(t.Policy), Seed: t.Seed,
			Link: p.Name, Direction: direction, BytesEmulated: int64(row.Bytes), Utilization: row.Utilization,
			Drops: int64(row.Drops), BacklogBytes: int64(row.Backlog), Marks: int64(row.Marks),
		})
	}
}

package experiment

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/netkvlab/netkvlab/internal/packet"
	"github.com/netkvlab/netkvlab/internal/trials"
)

// trial runs one policy on one seed and keeps its records, also when it was cut.
func (r *run) trial(ctx context.Context, t turn) error {
	name := t.name
	driver, err := r.driver(t.Trial, t.load)
	if err != nil {
		return err
	}
	if err := r.lab.Reset(ctx); err != nil {
		return err
	}
	before, err := r.received(ctx)
	if err != nil {
		return err
	}
	idle, err := r.counters()
	if err != nil {
		return err
	}
	r.gate.wait()
	if err := wait(ctx, r.lag); err != nil {
		return err
	}
	prefill, decode := r.members()
	sessions, err := r.open(ctx, prefill, decode)
	if err != nil {
		return err
	}
	tr := &packet.Trial{
		Driver: driver, Members: sessions.members, Epoch: sessions.epoch, TimeScale: r.plan.Scale.Time, Background: sessions.background,
		OnStall: r.stall,
		OnBackgroundLost: func(node, reason string) {
			r.fault("%s: background traffic from %s has ended: %s", name, node, reason)
		},
		OnProgress: func(ended, total int, _ time.Duration) { r.told.step(name, ended, total) },
	}
	r.told.begin(name)
	oracle := r.startOracle(ctx, t.Trial, tr)
	runErr := r.watched(func() error { return tr.Run(ctx) })
	oracle.cancel() // its series ends with this trial, whoever goes on
	r.gate.wait()
	linkErr := oracle.stop()
	lost := sessions.close()
	records := driver.Records()
	trials.NamePaths(r.plan, records)
	r.lab.NameBackPaths(records)
	r.page.records = records
	r.evidence.Oracle.Add(oracle.meter.Accuracy())
	if linkErr != nil { // a port that cannot be read is not what was planned
		linkErr = errors.Join(linkErr, r.verify(ctx, "in "+name))
	}
	if err := errors.Join(runErr, linkErr); err != nil {
		return err
	}
	if len(lost) > 0 {
		r.fault("%s: lost %s", name, strings.Join(lost, ", "))
		return fmt.Errorf("%s: lost %s; the trials after it were not run", name, strings.Join(lost, ", "))
	}
	over, err := r.counters()
	if err != nil {
		return err
	}
	if err := r.transport(oracle, r.own(idle, over), records); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return errors.Join(r.audit(ctx, name, records, before), r.verify(ctx, "after "+name))
}

// watched samples the host while something is done, unless the whole run is watched.
func (r *run) watched(do func() error) error {
	if r.host != nil {
		r.host.Start()
		defer r.host.Stop()
	}
	return do()
}

// left estimates the time to the end from the pace so far.
func left(spent time.Duration, ended, total int) time.Duration {
	if ended == 0 || total <= ended {
		return 0
	}
	return time.Duration(float64(spent) * float64(total-ended) / float64(ended))
}

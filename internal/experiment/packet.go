package experiment

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/netkvlab/netkvlab/internal/packet"
	"github.com/netkvlab/netkvlab/internal/results"
	"github.com/netkvlab/netkvlab/internal/trials"
)

func (r *run) packetTrials(ctx context.Context) error {
	s := r.opt.Scenario
	policies := r.policies()
	if err := r.verify(ctx, "before the first trial"); err != nil {
		return err
	}
	if err := r.calibrate(ctx); err != nil {
		return err
	}
	total := len(s.Seeds) * len(policies)
	n := 0
	for _, seed := range s.Seeds {
		load, err := r.load(seed)
		if err != nil {
			return err
		}
		for _, p := range policies {
			n++
			name := fmt.Sprintf("%s, seed %d (trial %d of %d)", trials.Label(p), seed, n, total)
			if err := r.trial(ctx, name, trials.Trial{World: results.WorldPacket, Policy: p, Seed: seed}, load); err != nil {
				return err
			}
		}
	}
	return nil
}

// trial runs one policy on one seed and keeps its records, also when it was cut.
func (r *run) trial(ctx context.Context, name string, t trials.Trial, l *load) error {
	driver, err := r.driver(t, l)
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
	prefill, decode := r.members()
	sessions, err := r.open(ctx, prefill, decode)
	if err != nil {
		return err
	}
	started := time.Now()
	tr := &packet.Trial{
		Driver: driver, Members: sessions.members, Epoch: sessions.epoch, TimeScale: r.plan.Scale.Time, Background: sessions.background,
		OnStall: r.stall,
		OnBackgroundLost: func(node, reason string) {
			r.fault("%s: background traffic from %s has ended: %s", name, node, reason)
		},
		OnProgress: func(ended, total int, _ time.Duration) {
			r.opt.Progress.Step(name, ended, total, left(time.Since(started), ended, total))
		},
	}
	r.opt.Progress.Phase("%s", name)
	oracle := r.startOracle(ctx, t, tr)
	r.host.Start()
	runErr := tr.Run(ctx)
	r.host.Stop()
	linkErr := oracle.stop()
	lost := sessions.close()
	records := driver.Records()
	trials.NamePaths(r.plan, records)
	if err := errors.Join(runErr, linkErr, r.keep(records), r.out.Flush()); err != nil {
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

// left estimates the time to the end from the pace so far.
func left(spent time.Duration, ended, total int) time.Duration {
	if ended == 0 || total <= ended {
		return 0
	}
	return time.Duration(float64(spent) * float64(total-ended) / float64(ended))
}

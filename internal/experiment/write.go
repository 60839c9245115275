package experiment

import (
	"errors"
	"fmt"
	"sync"

	"github.com/netkvlab/netkvlab/internal/analysis/attribution"
	"github.com/netkvlab/netkvlab/internal/fidelity"
	"github.com/netkvlab/netkvlab/internal/results"
	"github.com/netkvlab/netkvlab/internal/trials"
)

// orderedWriter writes packet trials into the run folder in the order of the work, each as soon
// as all earlier ones are written: a killed run leaves the complete beginning of the run. It
// also keeps what the verdict and the other worlds need. It is a Keeper.
type orderedWriter struct {
	out  *results.Writer
	work []Work

	mu      sync.Mutex
	played  map[int]*Played
	spoiled map[int][]results.SpoiledAttempt
	next    int // the first that is not written
}

func newOrderedWriter(out *results.Writer) *orderedWriter {
	return &orderedWriter{out: out, played: map[int]*Played{}, spoiled: map[int][]results.SpoiledAttempt{}}
}

// Keep implements Keeper.
func (o *orderedWriter) Keep(n int, p *Played) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.played[n] = p
	for o.played[o.next] != nil {
		if err := o.lockedWrite(o.next); err != nil {
			return err
		}
		o.next++
	}
	return nil
}

// PutAside implements Keeper.
func (o *orderedWriter) PutAside(n int, p *Played) error {
	lines, err := results.JSONLines(p.Records)
	if err != nil {
		return err
	}
	file := fmt.Sprintf("spoiled-trial%d-attempt%d.jsonl", n+1, p.Attempts)
	if err := o.out.WriteFile(file, lines); err != nil {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.spoiled[n] = append(o.spoiled[n], p.Spoiled(file))
	return nil
}

// flush writes the trials that wait for one that will never be played.
func (o *orderedWriter) flush() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	var errs []error
	for ; o.next < len(o.work); o.next++ {
		if o.played[o.next] != nil {
			errs = append(errs, o.lockedWrite(o.next))
		}
	}
	return errors.Join(errs...)
}

func (o *orderedWriter) lockedWrite(n int) error {
	p := o.played[n]
	err := o.out.AppendLinks(p.Links...)
	if err == nil {
		err = o.out.Append(p.Records...)
	}
	if err == nil {
		err = o.out.Flush()
	}
	return err
}

// each calls do for the trials that were played, in their order.
func (o *orderedWriter) each(do func(n int, p *Played)) {
	for n := range o.work {
		if p := o.played[n]; p != nil {
			do(n, p)
		}
	}
}

// records returns the records of all trials, in order.
func (o *orderedWriter) records() (out []results.Record) {
	o.each(func(_ int, p *Played) { out = append(out, p.Records...) })
	return out
}

// replays returns the fluid counterparts of those records.
func (o *orderedWriter) replays() (out []results.Record) {
	o.each(func(_ int, p *Played) { out = append(out, p.Replay...) })
	return out
}

// transfers returns the classes of the transfers of all trials.
func (o *orderedWriter) transfers() (out []attribution.Transfer) {
	o.each(func(_ int, p *Played) { out = append(out, p.Transfers...) })
	return out
}

// judged lists the trials with their verdicts.
func (o *orderedWriter) judged() (out []results.Trial) {
	o.each(func(n int, p *Played) {
		t := o.work[n].Trial
		out = append(out, results.Trial{
			Policy: trials.Label(t.Policy), Seed: t.Seed, Lab: p.Lab, Attempts: p.Attempts, Spoiled: o.spoiled[n],
			Verdict: p.Judgement.Verdict, Reasons: p.Judgement.Reasons, Figures: p.Judgement.Figures,
		})
	})
	return out
}

// trials returns the trials from which the run is judged.
func (o *orderedWriter) trials() (out []fidelity.Trial) {
	o.each(func(n int, p *Played) {
		out = append(out, fidelity.Trial{Name: o.work[n].Name, Evidence: p.Evidence, Judgement: p.Judgement})
	})
	return out
}

package fidelity

import (
	"fmt"
	"slices"
	"strings"

	"github.com/netkvlab/netkvlab/internal/results"
)

// Trial is one trial of a run with its last attempt's evidence and judgement.
type Trial struct {
	Name      string // as in reasons: "rr, seed 1"
	Evidence  *Evidence
	Judgement Judgement
}

// reasonsShown bounds how many reasons a run's verdict lists.
const reasonsShown = 12

// JudgeRun returns the verdict on a run: that of its worst trial, or a worse one from checks
// that need the data of all trials. alone are the transfers of all trials that met no other; nil
// if there were none. An interrupted run is never good.
func JudgeRun(trials []Trial, alone *results.AloneCheck, interrupted bool) results.Fidelity {
	var all Evidence
	for i := range trials {
		all.Merge(trials[i].Evidence)
	}
	j := newJudge(&all)
	for _, t := range trials {
		if t.Judgement.Verdict == results.VerdictInvalid || j.Verdict == results.VerdictGood {
			j.Verdict = t.Judgement.Verdict
		}
	}
	j.Reasons = reasons(trials)
	if interrupted {
		j.degraded("the run was cut short: the requests that ended are not a sample of all")
	}
	// A reason from all trials together is added only if no single trial gave it.
	if short(&all.Host, 0) && !found(trials, checkBusy) {
		j.busy(&all.Host)
	}
	if all.Oracle.Polls > 0 && !found(trials, checkBackground) {
		j.background(&all)
	}
	if alone != nil && !found(trials, checkAlone) {
		j.alone(alone)
	}
	return j.Fidelity
}

// found reports whether a check gave a reason in any trial.
func found(trials []Trial, c check) bool {
	return slices.ContainsFunc(trials, func(t Trial) bool { return t.Judgement.found[c] })
}

// reasons lists the reasons of all trials, each with the trials to which it applies.
func reasons(trials []Trial) []string {
	names := map[string][]string{}
	var order []string
	for _, t := range trials {
		for _, text := range t.Judgement.Reasons {
			if names[text] == nil {
				order = append(order, text)
			}
			names[text] = append(names[text], t.Name)
		}
	}
	out := make([]string, 0, len(order))
	for _, text := range order {
		switch in := names[text]; {
		case len(in) == len(trials):
			out = append(out, text)
		case len(in) > 3:
			out = append(out, fmt.Sprintf("%d of %d trials: %s", len(in), len(trials), text))
		default:
			out = append(out, fmt.Sprintf("%s: %s", strings.Join(in, "; "), text))
		}
	}
	if more := len(out) - reasonsShown; more > 0 {
		out = append(out[:reasonsShown], fmt.Sprintf("and %d more reasons: summary.json has those of each trial", more))
	}
	return out
}

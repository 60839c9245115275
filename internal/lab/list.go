package lab

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/netkvlab/netkvlab/fabric/kernel"
)

// Info is one line of `netkvlab ps`.
type Info struct {
	Lab string `json:"lab"`
	// Status: building, ready, running, removing; left (its process died), damaged
	// (parts are missing) or unknown (no readable state).
	Status     string    `json:"status"`
	Runtime    string    `json:"runtime,omitempty"`
	Namespaces int       `json:"namespaces"`
	Agents     int       `json:"agents"`
	Created    time.Time `json:"created,omitzero"`
	OwnerPID   int       `json:"owner_pid,omitempty"`
	Damage     []string  `json:"damage"`
}

// Since tells when the lab was made, in local time.
func (i Info) Since() string {
	if i.Created.IsZero() {
		return "-"
	}
	return i.Created.Local().Format(time.DateTime)
}

// All names every lab: those with a folder, and those that only the kernel or an engine knows.
func All(ctx context.Context, opt Options) ([]string, error) {
	names, err := opt.Store.Labs()
	if err != nil {
		return nil, err
	}
	marked, err := kernel.Labs()
	if err != nil {
		return nil, err
	}
	names = append(names, marked...)
	if opt.Containers != nil {
		labelled, err := opt.Containers.Labs(ctx)
		if err != nil {
			opt.Progress.Note("labs of which only containers are left are not listed: %v", err)
		}
		names = append(names, labelled...)
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// List describes every lab.
func List(ctx context.Context, opt Options) ([]Info, error) {
	names, err := All(ctx, opt)
	if err != nil {
		return nil, err
	}
	infos := make([]Info, 0, len(names))
	for _, n := range names {
		i, err := Look(ctx, n, opt)
		if err != nil {
			return nil, err
		}
		infos = append(infos, i)
	}
	return infos, nil
}

// Look describes one lab. Only a lab that does not exist at all is an error.
func Look(ctx context.Context, name string, opt Options) (Info, error) {
	info := Info{Lab: name, Status: "unknown", Damage: []string{}}
	if err := checkName(name); err != nil {
		return info, err
	}
	spaces, err := kernel.Namespaces(name)
	if err != nil {
		return info, err
	}
	info.Namespaces = len(spaces)
	st, plan, _, err := read(opt.Store, name)
	if err != nil {
		if n, errCount := opt.containers(ctx, name); errors.Is(err, ErrNotUp) && len(spaces) == 0 && errCount == nil && n == 0 {
			return info, fmt.Errorf("%w: `netkvlab ps` lists the labs", err)
		}
		info.Damage = append(info.Damage, err.Error(), fmt.Sprintf("remove it with `netkvlab down %s`", name))
		return info, nil
	}
	info.Runtime, info.Agents, info.Created, info.OwnerPID = st.Runtime, len(st.Agents), st.Created, st.Owner.PID
	info.Status = string(st.Phase)
	working := st.Phase != PhaseReady && st.Owner.running()
	if st.Phase != PhaseReady && !working {
		info.Status = "left"
		info.Damage = append(info.Damage, fmt.Sprintf("process %d ended while the lab was %s: remove it with `netkvlab down %s`", st.Owner.PID, st.Phase, name))
		return info, nil
	}
	if st.Phase == PhaseReady || st.Phase == PhaseRunning {
		if parts := damaged(ctx, st, plan, opt); len(parts) > 0 {
			info.Status, info.Damage = "damaged", append(info.Damage, parts...)
		}
	}
	return info, nil
}

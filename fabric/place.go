package fabric

import (
	"fmt"

	"github.com/netkvlab/netkvlab/scenarios"
)

// placement gives each instance its role, in pod, rack, server order.
func placement(s *scenarios.Scenario, d dims) ([]Role, error) {
	pl := &s.Placement
	roles := make([]Role, d.instances())
	listed := len(pl.Prefill)+len(pl.Decode) > 0
	switch {
	case listed && len(pl.Pattern) > 0:
		return nil, fmt.Errorf("placement: pattern and the lists prefill, decode exclude each other")
	case listed:
		if err := fromList(roles, "placement.prefill", pl.Prefill, RolePrefill); err != nil {
			return nil, err
		}
		if err := fromList(roles, "placement.decode", pl.Decode, RoleDecode); err != nil {
			return nil, err
		}
		return roles, nil
	case len(pl.Pattern) == 0:
		return roles, nil // explicit flows need no roles
	}
	size, err := unitSize(pl.Unit, d)
	if err != nil {
		return nil, err
	}
	pattern := make([]Role, len(pl.Pattern))
	for i, name := range pl.Pattern {
		role, ok := map[string]Role{"prefill": RolePrefill, "decode": RoleDecode, "idle": RoleNone}[name]
		if !ok {
			return nil, fmt.Errorf("placement.pattern[%d] is %q, want prefill, decode or idle", i, name)
		}
		pattern[i] = role
	}
	for i := range roles {
		roles[i] = pattern[i/size%len(pattern)]
	}
	return roles, nil
}

// unitSize is the number of instances in a placement unit.
func unitSize(unit string, d dims) (int, error) {
	switch unit {
	case "instance":
		return 1, nil
	case "server":
		return d.perServer, nil
	case "rack":
		return d.perRack(), nil
	case "pod":
		return d.perRack() * d.racks, nil
	}
	return 0, fmt.Errorf("placement.unit is %q, want instance, server, rack or pod", unit)
}

func fromList(roles []Role, field string, list []int, role Role) error {
	for i, at := range list {
		if at < 0 || at >= len(roles) {
			return fmt.Errorf("%s[%d] is %d, want 0..%d (the cluster has %d instances)", field, i, at, len(roles)-1, len(roles))
		}
		if roles[at] != RoleNone {
			return fmt.Errorf("%s[%d]: instance %d is listed twice", field, i, at)
		}
		roles[at] = role
	}
	return nil
}

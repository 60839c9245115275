package scenarios

import (
	"slices"
	"strconv"
)

// InstancesPerServer is how many instances of tp GPUs a server holds; 0 for a
// tp below 1 or above the server's GPUs.
func (t Topology) InstancesPerServer(tp int) int {
	if tp < 1 {
		return 0
	}
	return t.GPUsPerServer / tp
}

// InstancesPerRack is how many instances of tp GPUs share a top-of-rack switch.
func (t Topology) InstancesPerRack(tp int) int { return t.ServersPerRack * t.InstancesPerServer(tp) }

// InstancesPerPod is how many instances of tp GPUs a pod holds.
func (t Topology) InstancesPerPod(tp int) int { return t.RacksPerPod * t.InstancesPerRack(tp) }

// Instances is how many instances of tp GPUs the cluster holds.
func (t Topology) Instances(tp int) int { return t.Pods * t.InstancesPerPod(tp) }

// GPUs is how many GPUs the cluster holds.
func (t Topology) GPUs() int { return t.Pods * t.RacksPerPod * t.ServersPerRack * t.GPUsPerServer }

// Instances is the number of instances of the cluster.
func (s *Scenario) Instances() int { return s.Topology.Instances(s.Model.TensorParallel) }

// Roles gives every instance's role (RolePrefill, RoleDecode or RoleIdle) in
// pod, rack, server order. Indices out of range are ignored; Validate reports them.
func (s *Scenario) Roles() []string {
	roles := slices.Repeat([]string{RoleIdle}, max(0, s.Instances()))
	p := s.Placement
	if len(p.Pattern) > 0 {
		step := s.instancesPerUnit()
		for i := range roles {
			roles[i] = p.Pattern[i/step%len(p.Pattern)]
		}
		return roles
	}
	assign := func(role string, list []int) {
		for _, i := range list {
			if i >= 0 && i < len(roles) {
				roles[i] = role
			}
		}
	}
	assign(RolePrefill, p.Prefill)
	assign(RoleDecode, p.Decode)
	return roles
}

// instancesPerUnit is how many instances one step of the pattern covers, at least 1.
func (s *Scenario) instancesPerUnit() int {
	t, tp := s.Topology, s.Model.TensorParallel
	perUnit := map[string]int{"server": t.InstancesPerServer(tp), "rack": t.InstancesPerRack(tp), "pod": t.InstancesPerPod(tp)}
	return max(1, perUnit[s.Placement.Unit])
}

// InstanceNames gives every instance's name in pod, rack, server order: p0, p1,
// ... for prefill, d0, ... for decode, i0, ... for idle, numbered within the role.
func (s *Scenario) InstanceNames() []string {
	var names []string
	count := map[string]int{}
	for _, role := range s.Roles() {
		names = append(names, role[:1]+strconv.Itoa(count[role]))
		count[role]++
	}
	return names
}

package workload
import "github.com/netkvlab/netkvlab/scenarios"
func replay(s *scenarios.Scenario, seed uint64) ([]Request, Report, error) { return nil, Report{}, nil }
func LoadFlows(s *scenarios.Scenario, seed uint64) ([]FlowRequest, error) { return nil, nil }

package scheduler

// VisitAll runs the common form of the policies with a cost that only counts.
func VisitAll(s *State, r *Request, visit func(d int)) {
	p := policy{pick: cheapest(func(_ *State, _ *Request, d, _ int) float64 {
		visit(d)
		return 0
	})}
	p.Pick(r, s)
}

package paper

// Cell is one row of a table of the paper. Times are milliseconds, SLO is a share.
type Cell struct {
	Policy                   string
	TTFT, Transfer, TBT, SLO float64
}

// LoadRow is a load of Table II with its rows.
type LoadRow struct {
	Load  string
	Cells []Cell
}

// Table2 is the paper's Table II: the RAG profile on 64 GPUs.
func Table2() []LoadRow {
	return []LoadRow{
		{"100%", []Cell{
			{"rr", 1969, 993, 12.74, .907},
			{"cla*", 1812, 835, 12.71, .923},
			{"netkv-full", 1598, 620, 12.94, .944},
		}},
		{"200%", []Cell{
			{"rr", 2171, 1194, 13.01, .887},
			{"cla*", 1995, 1018, 12.88, .906},
			{"netkv-full", 1710, 733, 13.29, .933},
		}},
		{"250%", []Cell{
			{"rr", 2224, 1246, 13.13, .882},
			{"cla*", 2068, 1091, 12.97, .899},
			{"netkv-full", 1793, 816, 13.42, .925},
		}},
	}
}

// LengthRow is a row of Table III: changes of NetKV-Full's TTFT in per cent, and of its
// SLO attainment against RR as a share.
type LengthRow struct {
	Tokens        string
	VsRR, VsCLA   float64
	SLOVsRR       float64
	DeltaTBTVsCLA float64
}

// Table3 is the paper's Table III, context length.
func Table3() []LengthRow {
	return []LengthRow{
		{"1024", -9.1, -2.2, 0, .22},
		{"4096", -13.3, -3.2, 0, .27},
		{"8192", -15.2, -10.2, 0, .26},
		{"16384", -20.2, -17.6, .201, .17},
		{"32768", -6.7, -4.3, -.006, .03},
		{"65536", 0, .2, 0, 0},
	}
}

// AblationRow is a profile of Table IV: mean TTFT by rung of the ladder.
type AblationRow struct {
	Profile string
	TTFT    [4]float64
}

// Ladder are the policies of Table IV: each adds one thing that the scheduler knows.
func Ladder() []string { return []string{"cla*", "netkv-topo", "netkv-static", "netkv-full"} }

// Table4 is the paper's Table IV and Fig. 4.
func Table4() []AblationRow {
	return []AblationRow{
		{"chatbot", [4]float64{629, 598, 596, 595}},
		{"rag", [4]float64{1812, 1627, 1596, 1592}},
		{"long-context", [4]float64{7121, 6326, 6150, 6160}},
	}
}

// ScaleRow is a row of Table V: GPUs, the change of mean TTFT against CLA* in per cent,
// the SLO's in percentage points, and the transfer times.
type ScaleRow struct {
	GPUs       string
	TTFT, SLO  float64
	NetKV, CLA float64
	Packet     bool
}

// Table5 is the paper's Table V.
func Table5() []ScaleRow {
	return []ScaleRow{
		{"64", -11.0, 1.8, 603, 799, false},
		{"128", -13.6, 2.2, 603, 851, false},
		{"256", -13.6, 2.2, 603, 851, false},
		{"512", -13.6, 1.7, 603, 851, false},
		{"1024", -13.6, 1.7, 603, 851, false},
		{"64", -7.0, 1.0, 451, 559, true},
		{"128", -7.4, 1.0, 451, 565, true},
	}
}

// Fig1 is the paper's Fig. 1 for a profile: the reduction of mean TTFT against CLA in per
// cent, by row (oversubscription 1:1, 2:1, 4:1, 8:1) and column (background 0, 5, 10, 20, 40 %).
func Fig1() map[string][4][5]float64 {
	return map[string][4][5]float64{
		"chatbot": {
			{1.3, 1.4, 1.5, 1.7, 2.2}, {2.5, 2.6, 2.8, 3.1, 4.0},
			{4.6, 4.8, 5.0, 5.5, 7.1}, {7.8, 8.1, 8.3, 9.3, 11.2},
		},
		"rag": {
			{3.7, 3.9, 4.1, 4.5, 5.6}, {6.6, 6.6, 7.1, 7.7, 9.3},
			{10.5, 10.6, 11.0, 11.6, 13.7}, {14.3, 14.4, 14.5, 15.2, 15.9},
		},
		"long-context": {
			{4.0, 3.9, 4.3, 4.9, 5.8}, {6.6, 7.0, 7.1, 8.0, 9.9},
			{11.1, 11.9, 11.6, 12.8, 14.8}, {14.3, 14.9, 15.2, 14.6, 11.2},
		},
	}
}

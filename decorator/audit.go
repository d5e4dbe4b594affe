package decorator

import (
	"k8s.io/apiserver/pkg/audit"
)

// Annotations of the audit event of a request that made a verified read. Where one
// request makes several, they tell of the first that ended.
const (
	// AuditFloor is the revision that the answer was not to be below; absent where none
	// could be read.
	AuditFloor = "rvfloor.io/floor"
	// AuditOutcome is what the read came to, in the words of the metric
	// rvfloor_reads_total.
	AuditOutcome = "rvfloor.io/outcome"
)

// annotate tells the audit log, if the request is audited. A shadow read does not: it
// had no part in the answer, and may outlive the request.
func (r *read) annotate(outcome outcome) {
	event := audit.AuditContextFrom(r.ctx)
	if !event.Enabled() || r.shadow {
		return
	}
	// The event keeps the first value and logs a warning for each other one.
	if _, told := event.GetEventAnnotation(AuditOutcome); told {
		return
	}
	audit.AddAuditAnnotation(r.ctx, AuditOutcome, outcome.String())
	if r.target != 0 {
		audit.AddAuditAnnotation(r.ctx, AuditFloor, formatRevision(r.target))
	}
}

package rules

import (
	"regexp"
	"strings"
	"time"

	"github.com/runlot/runlot/internal/config/source"
)

// NewestDate is the newest compatibility date that an app may name, and that of an app that names none: the release of
// workerd that Runlot ships. An uploaded version keeps the date that it was compiled with.
const NewestDate = "2026-11-17"

var datePattern = regexp.MustCompile(`^\d{4}-\d{2}-\d{2}$`)

// CompatibilityDate reads a date, "" when there is none.
func CompatibilityDate(v source.Value) string {
	date, ok := v.Date()
	if !ok {
		return ""
	}
	_, err := time.Parse(time.DateOnly, date)
	switch {
	case !datePattern.MatchString(date):
		v.Refusef("write it as year-month-day, like "+v.Line(v.Key(), `"`+NewestDate+`"`), "%s is not a date", source.Quote(date))
	case err != nil:
		v.Refusef("", "%s is not a day of the calendar", date)
	case date > NewestDate:
		v.Refusef("write "+v.Line(v.Key(), `"`+NewestDate+`"`),
			"compatibility date %s is newer than this release's runtime, which knows dates up to %s", date, NewestDate)
	default:
		return date
	}
	return ""
}

// CompatibilityFlags reads flags. The runtime checks that they exist; experimental ones are refused here, because the
// runtime is started with its experimental features on for its internal workers, and would let an app have them too.
func CompatibilityFlags(v source.Value) []string {
	var flags []string
	seen := map[string]bool{}
	for _, item := range v.Items() {
		flag, ok := item.Text()
		switch {
		case !ok:
		case Experimental(flag):
			item.Refusef("remove it", "compatibility flag %s is experimental in workerd, and not open to apps", source.Quote(flag))
		case seen[flag]:
			item.Refusef("keep one of them", "compatibility flag %s stands twice", source.Quote(flag))
		default:
			seen[flag] = true
			flags = append(flags, flag)
		}
	}
	return flags
}

// Experimental reports whether workerd allows a flag only with its experimental features on.
func Experimental(flag string) bool {
	return experimental[flag] || strings.HasPrefix(flag, "unsafe")
}

// experimental are the flags that this release of workerd refuses without --experimental. A test asks the binary.
var experimental = func() map[string]bool {
	set := map[string]bool{}
	for name := range strings.FieldsSeq(`
		allow_insecure_inefficient_logged_eval auto_inject_python_workers cache_reload_enabled connect_handler_starttls
		connect_pass_through d1_binding_jsrpc durable_object_get_existing durable_object_rename durable_object_snapshots
		enable_abortsignal_rpc enable_ctx_version_metadata enable_d1_with_sessions_api enable_nodejs_inspector_local_dev
		enable_version_api enable_web_file_system experimental expose_draining_reader expose_serialization_test_class
		increase_websocket_message_size js_rpc kv_direct_binding memory_cache_delete offpeak_location_hint precise_timers
		python_workers_development python_workers_durable_objects python_zstd_snapshot r2_binding_jsrpc replica_routing
		rpc_dispose_cancels_call rtti_api service_binding_extra_handlers spec_compliant_property_attributes
		streaming_tail_worker streams_no_default_auto_allocate_chunk_size tail_worker_user_spans
		typescript_implemented_streams typescript_strip_types unsafe_module unsupported_process_actual_platform
		wasm_memory_discard webgpu workflows_bindings_rpc workflows_step_rollback
	`) {
		set[name] = true
	}
	return set
}()

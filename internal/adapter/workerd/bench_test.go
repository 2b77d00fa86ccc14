package workerd

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
)

// BenchmarkDeliver delivers batches of 200-byte messages, four at a time.
func BenchmarkDeliver(b *testing.B) {
	w := run(b, `export default { async queue(batch) { let n = 0; for (const m of batch.messages) n += m.body.n; } };`, nil)
	body := `{"n":1,"p":"` + strings.Repeat("x", 200-14) + `"}`
	for _, size := range []int{1, 10, 100} {
		b.Run(fmt.Sprintf("batch=%d", size), func(b *testing.B) {
			var next sync.Mutex
			left := b.N
			take := func() bool {
				next.Lock()
				defer next.Unlock()
				left--
				return left >= 0
			}
			bodies := make([]string, size)
			for i := range bodies {
				bodies[i] = body
			}
			b.ResetTimer()
			var wg sync.WaitGroup
			for i := range 4 {
				wg.Go(func() {
					messages := jsons(bodies...)
					messages[0].ID[0] = byte(i)
					d := delivery("d", messages...)
					for take() {
						if _, err := w.Deliver(context.Background(), d); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
			b.ReportMetric(float64(b.N*size)/b.Elapsed().Seconds(), "messages/s")
		})
	}
}

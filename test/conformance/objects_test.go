package conformance_test

const cloudflareObjects = "Workers docs, Durable Objects"

// objectCases are the rules of Durable Objects, as far as they are not workerd's alone. Each has objects of its own.
func objectCases() []testCase {
	objects := func(id, rule string, calls []object, want []string, wrongs ...wrong) testCase {
		return steps("objects", cloudflareObjects, id, rule, calls, want, wrongs...)
	}
	const twenty = `"1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20"`
	return []testCase{
		objects("objects-storage", "an object has SQL and key-value storage, an older class only the latter; a transaction that throws leaves nothing",
			[]object{
				calling("count", "a"), calling("count", "a"), calling("count", "b"), calling("half", "a"), on("OLD", calling("keep", "a", 1)),
				on("OLD", calling("sql", "a")), calling("fail", "a"),
			},
			[]string{
				"1", "2", "1", "null", `[["value",1]]`,
				`"no SQL"`,
				"RangeError: not so",
			},
			answers("each call has storage of its own", 1, "1"), answers("objects share their storage", 2, "3"), answers("half a transaction is there", 3, "1"),
			answers("every class has SQL", 5, "1"),
		),
		objects("objects-together", "one object does not lose a write of calls that come together",
			[]object{calling("together", "together")}, []string{twenty},
			answers("calls read what is not written yet", 0, `"1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1"`),
		),
		objects("objects-alarm", "an alarm calls its object at its time, once",
			[]object{calling("ring", "alarm", 50)}, []string{"null"},
			answers("the alarm is still set", 0, "1700000000000"),
		),
		objects("objects-socket", "an object takes WebSockets and hears of their messages",
			[]object{calling("socket", "socket")}, []string{`"echo hello"`},
			answers("nobody answers", 0, "null"),
		),
	}
}

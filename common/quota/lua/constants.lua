-- Numbers with a name. When this is built their values are put in their places in the other files,
-- as a local of a script costs time at every call: each function that uses it captures it anew.

-- A limit is an array. Of the configuration: its dimension, limit, 1 if paced, burst, scale, price,
-- then of its ring (SIZE 0: none), 1 if by the day, and its ramp (GROWTH 0: none).
local DIM = 1
local LIMIT = 2
local PACED = 3
local BURST = 4
local SCALE = 5
local PRICE = 6
local SIZE = 7
local WIDTH = 8
local CELL = 9
local SPAN = 10
local DAY = 11
local START = 12
local GROWTH = 13
local CONFIGURED = 13
-- Of its state: the bucket, the first kept cell of the ring, the ramp, the cap, until when others
-- are thought to use its window.
local TAT = 14
local TICKS = 15
local LOW = 16
local R_VALUE = 17
local R_GROWN = 18
local R_USED = 19
local R_CUT = 20
local C_VALUE = 21
local C_CEIL = 22
local C_GROWN = 23
local OUTSIDE_UNTIL = 24

-- A share that grows back: S.rate, S.capacity.
local VALUE = 1
local CEIL = 2
local GROWN = 3
local CUT = 4
local FULL = 256
local LEAST = 16

-- An open reservation: seven costs are behind R_COST, seven shares behind R_SHARE.
local R_SEQ = 1
local R_AT = 2
local R_VOID = 3
local R_BIND = 4
local R_JOB = 5
local R_MODEL = 6
local R_COST = 6
local R_SHARE = 13
local R_WORKER = 21

-- Costs. Dimensions count from 0 in the state, costs from 1.
local REQ = 1
local TOK = 2
local INP = 3
local OUT = 4
local SLOT = 5
local REQ_DAY = 6
local TOK_DAY = 7
local IN_FLIGHT = 4

-- A flow, see flows.lua.
local VIRTUAL = 1
local WEIGHT = 2
local SEEN = 3
local REFUSED_AT = 4
local REFUSED = 5
local STRIDE = 6
local FAIR_WINDOW = 4000000
local MOST_US = 68719476736

-- The numbers of pool_store.h: kinds of answers, settlements, penalties.
local SEND_AT = 0
local RETRY_AT = 1
local NEVER_FITS = 2
local CLOSED = 3
local CHARGED = 0
local UNKNOWN = 1
local REJECTED = 2
local NOT_SENT = 3
local RATE = 0
local RAMP = 1
local CAPACITY = 2
local STOP = 3

local NEVER = -4503599627370496
local OVERRUN = 16          -- limits that one cost may come to
local MAX_CLOSED = 8192
local STEP_BACK = 5000000   -- a server clock that falls further back is another clock
local BEAT = 1000000
local KNEE_START = 16       -- of knee.h
local KNEE_STEP = 950000    -- a step a second, though a beat be a little early
local KNEE_LEASE = 3000000

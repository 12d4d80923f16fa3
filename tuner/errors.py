"""What can go wrong in a campaign, apart from its candidates.

TunerError
├── SpecError                  a campaign's description that can't be used
├── CampaignFileError          a file of campaigns that can't be used
├── CampaignError              a campaign that can't start, or can't go on
│   ├── CampaignDiffersError   it was started with other settings, or on another CPU
│   ├── ResultsFolderError     the folder for its files can't be made
│   ├── NoRoomError            the disk has too little room for its files
│   ├── TooManyThreadsError    this process may not use so many cores
│   ├── ForeignResultsError    results of a bundle that was not made here
│   └── DeviceGoneError        no device is left to measure on
├── UnknownCampaignError       a name no campaign has, or none given where there are several
├── NoTvmError                 what compiles and measures kernels is not installed
├── SamplesError               a file of samples for a model that can't be used
├── ChoiceError                no network is as accurate as its user wants
├── BenchError                 a comparison that can't start, or can't go on
│   ├── BenchSpecError         its description can't be used
│   │   └── NoScheduleError        a best log has no schedule of what is to be timed
│   │   └── UnknownQuantizerError   a quantizer's name that nobody registered
│   ├── NoPeersError           nothing to compare with is installed
│   ├── NoQuantizerError       a quantizer to compare with is not installed
│   └── NoMetaScheduleError    TVM's MetaSchedule is not installed whole
├── BuildPoolError             the processes that build candidates did not start, or keep dying
│   └── BuildClusterError      the cluster that builds candidates can't be reached, refuses, or was lost
├── ParcelError                a build's result from another machine that is damaged
├── UnknownPageError           a topic that the documentation has no page of
├── UnknownStrategyError       a search strategy's name nobody registered
├── RecordingError             a lab's recording that can't be read or written
└── CostModelError             samples a cost model can't learn from, or a question it can't answer
"""


class TunerError(Exception):
    """Base of every error this package raises on purpose."""


class SpecError(TunerError):
    """A campaign's description that can't be used."""


class GivenError(SpecError):
    """What is said of a model's inputs, as values or shapes, is none, or does not fit."""


class CampaignFileError(TunerError):
    """A file of campaigns can't be used; the message has a line for each fault."""


class CampaignError(TunerError):
    """A campaign that can't start, or can't go on."""


class CampaignDiffersError(CampaignError):
    """A campaign was started with other settings, or on another CPU."""


class ResultsFolderError(CampaignError):
    """The folder for a campaign's files can't be made."""


class NoRoomError(CampaignError):
    """The disk has too little room for a campaign's files, or for those of a device's check."""


class TooManyThreadsError(CampaignError):
    """This process may not use so many cores."""


class ForeignResultsError(CampaignError):
    """Results of a bundle that was not made here."""


class DeviceGoneError(CampaignError):
    """No device is left to measure on."""


class UnknownCampaignError(TunerError):
    """A name no campaign has, or none given where there are several."""


class NoTvmError(TunerError):
    """What compiles and measures kernels is not installed: this environment reads, compares and reports results."""


class SamplesError(TunerError):
    """A file of samples for a model that can't be used."""


class ChoiceError(TunerError):
    """No network is as accurate as its user wants."""


class BenchError(TunerError):
    """A comparison with other libraries can't start, or can't go on."""


class BenchSpecError(BenchError):
    """A comparison's description that can't be used."""


class NoScheduleError(BenchSpecError):
    """A best log has no schedule of the layer that is to be timed."""


class UnknownQuantizerError(BenchSpecError):
    """A quantizer's name that nobody registered."""


class NoPeersError(BenchError):
    """Nothing to compare with is installed."""


class NoQuantizerError(BenchError):
    """A quantizer to compare with is not installed."""


class NoMetaScheduleError(BenchError):
    """TVM's MetaSchedule is not installed, or not all of what it needs."""


class BuildPoolError(TunerError):
    """The processes that build candidates did not start, or keep dying."""


class BuildClusterError(BuildPoolError):
    """The cluster that builds candidates can't be reached, refuses, or was lost."""


class ParcelError(TunerError):
    """A build's result from another machine is damaged."""


class UnknownPageError(TunerError):
    """The documentation has no page of that name."""


class UnknownStrategyError(TunerError):
    """A search strategy's name nobody registered."""


class CostModelError(TunerError):
    """Samples a cost model can't learn from, or a question it can't answer."""


class RecordingError(TunerError):
    """A lab's recording can't be read or written."""


class NoTraceError(RecordingError):
    """No schedule is a trace of TVM's, which is what MetaSchedule's database holds."""

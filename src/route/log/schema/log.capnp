# The part of openpilot's log format that sparkpilot reads and writes. Wire-compatible with cereal/log.capnp: the same
# ordinals and types, and the same ids where that schema fixes them. What nobody here reads is AnyPointer; its name is
# kept, so that a log's events can be counted by name. A struct is written without gaps up to its highest field.
@0xf3b1f17e25a4285b;

using Cxx = import "/capnp/c++.capnp";
using Car = import "car.capnp";
$Cxx.namespace("sparkpilot::cereal");

enum LongitudinalPersonality { aggressive @0; standard @1; relaxed @2; }

# The successor of CarEvent: the same fields, other numbers of names.
struct OnroadEvent @0xc4fa6047f024e718 {
  name @0 :EventName; enable @1 :Bool; noEntry @2 :Bool; warning @3 :Bool; userDisable @4 :Bool; softDisable @5 :Bool;
  immediateDisable @6 :Bool; preEnable @7 :Bool; permanent @8 :Bool; overrideLongitudinal @9 :Bool;
  overrideLateral @10 :Bool;
  enum EventName @0x91f1992a1f77fb03 {
    canError @0; steerUnavailable @1; wrongGear @2; doorOpen @3; seatbeltNotLatched @4; espDisabled @5;
    wrongCarMode @6; steerTempUnavailable @7; reverseGear @8; buttonCancel @9; buttonEnable @10; pedalPressed @11;
    preEnableStandstill @12; gasPressedOverride @13; steerOverride @14; cruiseDisabled @15; speedTooLow @16;
    outOfSpace @17; overheat @18; calibrationIncomplete @19; calibrationInvalid @20; calibrationRecalibrating @21;
    controlsMismatch @22; pcmEnable @23; pcmDisable @24; radarFault @25; brakeHold @26; parkBrake @27;
    manualRestart @28; joystickDebug @29; longitudinalManeuver @30; steerTempUnavailableSilent @31;
    resumeRequired @32; preDriverDistracted @33; promptDriverDistracted @34; driverDistracted @35;
    preDriverUnresponsive @36; promptDriverUnresponsive @37; driverUnresponsive @38; belowSteerSpeed @39;
    lowBattery @40; accFaulted @41; sensorDataInvalid @42; commIssue @43; commIssueAvgFreq @44; tooDistracted @45;
    posenetInvalid @46; soundsUnavailableDEPRECATED @47; preLaneChangeLeft @48; preLaneChangeRight @49;
    laneChange @50; lowMemory @51; stockAeb @52; ldw @53; carUnrecognized @54; invalidLkasSetting @55;
    speedTooHigh @56; laneChangeBlocked @57; relayMalfunction @58; stockFcw @59; startup @60; startupNoCar @61;
    startupNoControl @62; startupNoSecOcKey @63; startupMaster @64; fcw @65; steerSaturated @66;
    belowEngageSpeed @67; noGps @68; wrongCruiseMode @69; modeldLagging @70; deviceFalling @71; fanMalfunction @72;
    cameraMalfunction @73; cameraFrameRate @74; processNotRunning @75; dashcamMode @76; selfdriveInitializing @77;
    usbError @78; cruiseMismatch @79; canBusMissing @80; selfdrivedLagging @81; resumeBlocked @82;
    steerTimeLimit @83; vehicleSensorsInvalid @84; locationdTemporaryError @85; locationdPermanentError @86;
    paramsdTemporaryError @87; paramsdPermanentError @88; actuatorsApiUnavailable @89; espActive @90;
    personalityChanged @91; aeb @92; radarTempUnavailable @93; steerDisengage @94; userBookmark @95;
    excessiveActuation @96; audioFeedback @97;
  }
}

struct InitData {
  kernelArgs @0 :List(Text); gctxDEPRECATED @1 :Text; dongleId @2 :Text; deviceType @3 :DeviceType; version @4 :Text;
  androidBuildInfo @5 :AnyPointer; androidSensorsDEPRECATED @6 :AnyPointer;
  chffrAndroidExtraDEPRECATED @7 :AnyPointer; pandaInfo @8 :PandaInfo; dirty @9 :Bool; gitCommit @10 :Text;
  gitBranch @11 :Text; passive @12 :Bool; gitRemote @13 :Text; iosBuildInfoDEPRECATED @14 :AnyPointer;
  kernelVersion @15 :Text; androidProperties @16 :AnyPointer; params @17 :AnyPointer; osVersion @18 :Text;
  commands @19 :AnyPointer; wallTimeNanos @20 :UInt64; gitCommitDate @21 :Text; bootlogId @22 :Text;
  enum DeviceType { unknown @0; neo @1; chffrAndroid @2; chffrIos @3; tici @4; pc @5; tizi @6; mici @7; }
  struct PandaInfo { hasPanda @0 :Bool; dongleId @1 :Text; stVersion @2 :Text; espVersion @3 :Text; }
}

struct FrameData {
  frameId @0 :UInt32; encodeId @1 :UInt32; timestampEof @2 :UInt64; frameLengthDEPRECATED @3 :Int32;
  integLines @4 :Int32; globalGainDEPRECATED @5 :Int32; image @6 :Data; frameType @7 :FrameType;
  timestampSof @8 :UInt64; androidCaptureResultDEPRECATED @9 :AnyPointer; transform @10 :List(Float32);
  lensPosDEPRECATED @11 :Int32; lensSagDEPRECATED @12 :Float32; lensErrDEPRECATED @13 :Float32;
  lensTruePosDEPRECATED @14 :Float32; gain @15 :Float32; focusValDEPRECATED @16 :List(Int16);
  focusConfDEPRECATED @17 :List(UInt8); sharpnessScoreDEPRECATED @18 :List(UInt16); recoverStateDEPRECATED @19 :Int32;
  highConversionGain @20 :Bool; measuredGreyFraction @21 :Float32; targetGreyFraction @22 :Float32;
  processingTime @23 :Float32; temperaturesC @24 :List(Float32); frameIdSensor @25 :UInt32; sensor @26 :ImageSensor;
  exposureValPercent @27 :Float32; requestId @28 :UInt32;
  enum FrameType { unknown @0; neo @1; chffrAndroid @2; front @3; }
  enum ImageSensor { unknown @0; ar0231 @1; ox03c10 @2; os04c10 @3; }
}

struct Thumbnail {
  frameId @0 :UInt32; timestampEof @1 :UInt64; thumbnail @2 :Data; encoding @3 :Encoding;
  enum Encoding { unknown @0; jpeg @1; keyframe @2; }
}

struct SensorEventData {
  version @0 :Int32; sensor @1 :Int32; type @2 :Int32; timestamp @3 :Int64; source @8 :SensorSource;
  uncalibratedDEPRECATED @10 :Bool;
  union {
    acceleration @4 :SensorVec; magnetic @5 :SensorVec; orientation @6 :SensorVec; gyro @7 :SensorVec;
    pressure @9 :SensorVec; magneticUncalibrated @11 :SensorVec; gyroUncalibrated @12 :SensorVec;
    proximity @13 :Float32; light @14 :Float32; temperature @15 :Float32;
  }
  struct SensorVec { v @0 :List(Float32); status @1 :Int8; }
  enum SensorSource {
    android @0; iOS @1; fiber @2; velodyne @3; bno055 @4; lsm6ds3 @5; bmp280 @6; mmc3416x @7; bmx055 @8; rpr0521 @9;
    lsm6ds3trc @10; mmc5603nj @11;
  }
}

struct GpsLocationData {
  flags @0 :UInt16; latitude @1 :Float64; longitude @2 :Float64; altitude @3 :Float64; speed @4 :Float32;
  bearingDeg @5 :Float32; horizontalAccuracy @6 :Float32; unixTimestampMillis @7 :Int64; source @8 :SensorSource;
  vNED @9 :List(Float32); verticalAccuracy @10 :Float32; bearingAccuracyDeg @11 :Float32; speedAccuracy @12 :Float32;
  hasFix @13 :Bool; satelliteCount @14 :Int8;
  enum SensorSource {
    android @0; iOS @1; car @2; velodyne @3; fusion @4; external @5; ublox @6; trimble @7; qcomdiag @8; unicore @9;
  }
}

enum Desire { none @0; turnLeft @1; turnRight @2; laneChangeLeft @3; laneChangeRight @4; keepLeft @5; keepRight @6; }
enum LaneChangeState { off @0; preLaneChange @1; laneChangeStarting @2; laneChangeFinishing @3; }
enum LaneChangeDirection { none @0; left @1; right @2; }
struct CanData { address @0 :UInt32; busTime @1 :UInt16; dat @2 :Data; src @3 :UInt8; }

struct DeviceState @0xa4d8b5af2aa492eb {
  cpu0DEPRECATED @0 :UInt16; cpu1DEPRECATED @1 :UInt16; cpu2DEPRECATED @2 :UInt16; cpu3DEPRECATED @3 :UInt16;
  memDEPRECATED @4 :UInt16; gpuDEPRECATED @5 :UInt16; batDEPRECATED @6 :UInt32; freeSpacePercent @7 :Float32;
  batteryPercentDEPRECATED @8 :Int16; batteryStatusDEPRECATED @9 :Text; fanSpeedPercentDesired @10 :UInt16;
  started @11 :Bool; usbOnlineDEPRECATED @12 :Bool; startedMonoTime @13 :UInt64; thermalStatus @14 :ThermalStatus;
  batteryCurrentDEPRECATED @15 :Int32; batteryVoltageDEPRECATED @16 :Int32; chargingErrorDEPRECATED @17 :Bool;
  chargingDisabledDEPRECATED @18 :Bool; memoryUsagePercent @19 :Int8; cpuUsagePercentDEPRECATED @20 :Int8;
  pa0DEPRECATED @21 :UInt16; networkType @22 :NetworkType; offroadPowerUsageUwh @23 :UInt32;
  networkStrength @24 :NetworkStrength; carBatteryCapacityUwh @25 :UInt32; cpuTempC @26 :List(Float32);
  gpuTempC @27 :List(Float32); memoryTempC @28 :Float32; batteryTempCDEPRECATED @29 :Float32;
  ambientTempCDEPRECATED @30 :Float32; networkInfo @31 :AnyPointer; lastAthenaPingTime @32 :UInt64;
  gpuUsagePercent @33 :Int8; cpuUsagePercent @34 :List(Int8); nvmeTempC @35 :List(Float32);
  modemTempC @36 :List(Float32); screenBrightnessPercent @37 :Int8; thermalZones @38 :List(ThermalZone);
  pmicTempC @39 :List(Float32); powerDrawW @40 :Float32; networkMetered @41 :Bool; somPowerDrawW @42 :Float32;
  networkStats @43 :AnyPointer; maxTempC @44 :Float32; deviceType @45 :InitData.DeviceType; intakeTempC @46 :Float32;
  exhaustTempC @47 :Float32; caseTempC @48 :Float32; dspTempC @49 :Float32;
  struct ThermalZone { name @0 :Text; temp @1 :Float32; }
  enum ThermalStatus { green @0; yellow @1; red @2; danger @3; }
  enum NetworkType { none @0; wifi @1; cell2G @2; cell3G @3; cell4G @4; cell5G @5; ethernet @6; }
  enum NetworkStrength { unknown @0; poor @1; moderate @2; good @3; great @4; }
}

struct PandaState @0xa7649e2575e4591e {
  voltage @0 :UInt32; current @1 :UInt32; ignitionLine @2 :Bool; controlsAllowed @3 :Bool;
  gasInterceptorDetectedDEPRECATED @4 :Bool; startedSignalDetectedDEPRECATED @5 :Bool; hasGpsDEPRECATED @6 :Bool;
  rxBufferOverflow @7 :UInt32; txBufferOverflow @8 :UInt32; gmlanSendErrsDEPRECATED @9 :UInt32;
  pandaType @10 :PandaType; fanSpeedRpmDEPRECATED @11 :UInt16; usbPowerModeDEPRECATED @12 :UsbPowerModeDEPRECATED;
  ignitionCan @13 :Bool; safetyModel @14 :Car.CarParams.SafetyModel; faultStatus @15 :FaultStatus;
  powerSaveEnabled @16 :Bool; uptime @17 :UInt32; faults @18 :List(FaultType); safetyRxInvalid @19 :UInt32;
  safetyParamDEPRECATED @20 :Int16; harnessStatus @21 :HarnessStatus; heartbeatLost @22 :Bool;
  alternativeExperience @23 :Int16; safetyTxBlocked @24 :UInt32; interruptLoad @25 :Float32;
  safetyParam2DEPRECATED @26 :UInt32; safetyParam @27 :UInt16; fanPower @28 :UInt8; canState0 @29 :AnyPointer;
  canState1 @30 :AnyPointer; canState2 @31 :AnyPointer; safetyRxChecksInvalid @32 :Bool;
  spiChecksumErrorCount @33 :UInt16; fanStallCount @34 :UInt8; sbu1Voltage @35 :Float32; sbu2Voltage @36 :Float32;
  enum FaultStatus { none @0; faultTemp @1; faultPerm @2; }
  enum UsbPowerModeDEPRECATED { none @0; client @1; cdp @2; dcp @3; }
  enum FaultType {
    relayMalfunction @0; unusedInterruptHandled @1; interruptRateCan1 @2; interruptRateCan2 @3; interruptRateCan3 @4;
    interruptRateTach @5; interruptRateGmlanDEPRECATED @6; interruptRateInterrupts @7; interruptRateSpiDma @8;
    interruptRateSpiCs @9; interruptRateUart1 @10; interruptRateUart2 @11; interruptRateUart3 @12;
    interruptRateUart5 @13; interruptRateUartDma @14; interruptRateUsb @15; interruptRateTim1 @16;
    interruptRateTim3 @17; registerDivergent @18; interruptRateKlineInit @19; interruptRateClockSource @20;
    interruptRateTick @21; interruptRateExti @22; interruptRateSpi @23; interruptRateUart7 @24; sirenMalfunction @25;
    heartbeatLoopWatchdog @26;
  }
  enum PandaType @0x8a58adf93e5b3751 {
    unknown @0; whitePanda @1; greyPanda @2; blackPanda @3; pedal @4; uno @5; dos @6; redPanda @7; redPandaV2 @8;
    tres @9; cuatro @10;
  }
  enum HarnessStatus { notConnected @0; normal @1; flipped @2; }
}

struct RadarState @0x9a185389d6fdd05f {
  warpMatrixDEPRECATED @0 :List(Float32); angleOffsetDEPRECATED @1 :Float32; calStatusDEPRECATED @2 :Int8;
  leadOne @3 :LeadData; leadTwo @4 :LeadData; cumLagMs @5 :Float32; mdMonoTime @6 :UInt64;
  ftMonoTimeDEPRECATED @7 :UInt64; calCycleDEPRECATED @8 :Int32; calPercDEPRECATED @9 :Int8;
  canMonoTimesDEPRECATED @10 :List(UInt64); carStateMonoTime @11 :UInt64; radarErrorsDEPRECATED @12 :AnyPointer;
  radarErrors @13 :Car.RadarData.Error;
  struct LeadData {
    dRel @0 :Float32; yRel @1 :Float32; vRel @2 :Float32; aRel @3 :Float32; vLead @4 :Float32;
    aLeadDEPRECATED @5 :Float32; dPath @6 :Float32; vLat @7 :Float32; vLeadK @8 :Float32; aLeadK @9 :Float32;
    fcw @10 :Bool; status @11 :Bool; aLeadTau @12 :Float32; modelProb @13 :Float32; radar @14 :Bool;
    radarTrackId @15 :Int32 = -1;
  }
}

struct LiveCalibrationData {
  warpMatrixDEPRECATED @0 :List(Float32); calStatusDEPRECATED @1 :Int8; calCycle @2 :Int32; calPerc @3 :Int8;
  extrinsicMatrix @4 :List(Float32); warpMatrix2DEPRECATED @5 :List(Float32);
  warpMatrixBigDEPRECATED @6 :List(Float32); rpyCalib @7 :List(Float32); rpyCalibSpread @8 :List(Float32);
  validBlocks @9 :Int32; wideFromDeviceEuler @10 :List(Float32); calStatus @11 :Status; height @12 :List(Float32);
  enum Status { uncalibrated @0; calibrated @1; invalid @2; recalibrating @3; }
}

struct SelfdriveState {
  state @0 :OpenpilotState; enabled @1 :Bool; active @2 :Bool; alertText1 @3 :Text; alertText2 @4 :Text;
  alertStatus @5 :AlertStatus; alertSize @6 :AlertSize; alertType @7 :Text;
  alertSound @8 :Car.CarControl.HUDControl.AudibleAlert; engageable @9 :Bool; experimentalMode @10 :Bool;
  personality @11 :LongitudinalPersonality; alertHudVisual @12 :Car.CarControl.HUDControl.VisualAlert;
  enum OpenpilotState @0xdbe58b96d2d1ac61 { disabled @0; preEnabled @1; enabled @2; softDisabling @3; overriding @4; }
  enum AlertStatus @0xa0d0dcd113193c62 { normal @0; userPrompt @1; critical @2; }
  enum AlertSize @0xe98bb99d6e985f64 { none @0; small @1; mid @2; full @3; }
}

struct LivePose {
  orientationNED @0 :XYZMeasurement; velocityDevice @1 :XYZMeasurement; accelerationDevice @2 :XYZMeasurement;
  angularVelocityDevice @3 :XYZMeasurement; inputsOK @4 :Bool = false; posenetOK @5 :Bool = false;
  sensorsOK @6 :Bool = false;
  struct XYZMeasurement {
    x @0 :Float32; y @1 :Float32; z @2 :Float32; xStd @3 :Float32; yStd @4 :Float32; zStd @5 :Float32; valid @6 :Bool;
  }
}

struct DrivingModelData {
  frameId @0 :UInt32; frameIdExtra @1 :UInt32; action @2 :ModelDataV2.Action; laneLineMeta @3 :LaneLineMeta;
  meta @4 :MetaData; path @5 :PolyPath; frameDropPerc @6 :Float32; modelExecutionTime @7 :Float32;
  struct PolyPath {
    xCoefficients @0 :List(Float32); yCoefficients @1 :List(Float32); zCoefficients @2 :List(Float32);
  }
  struct LaneLineMeta { leftY @0 :Float32; rightY @1 :Float32; leftProb @2 :Float32; rightProb @3 :Float32; }
  struct MetaData { laneChangeState @0 :LaneChangeState; laneChangeDirection @1 :LaneChangeDirection; }
}

struct LiveDelayData {
  lateralDelay @0 :Float32; validBlocks @1 :Int32; status @2 :Status; lateralDelayEstimate @3 :Float32;
  points @4 :List(Float32); lateralDelayEstimateStd @5 :Float32;
  enum Status { unestimated @0; estimated @1; invalid @2; }
}

struct DriverAssistance { leftLaneDeparture @0 :Bool; rightLaneDeparture @1 :Bool; }

struct ControlsState @0x97ff69c53601abf1 {
  vEgoDEPRECATED @0 :Float32; aEgoDEPRECATED @1 :Float32; vPid @2 :Float32; vTargetLead @3 :Float32;
  upAccelCmd @4 :Float32; uiAccelCmd @5 :Float32; yActualDEPRECATED @6 :Float32; yDesDEPRECATED @7 :Float32;
  upSteerDEPRECATED @8 :Float32; uiSteerDEPRECATED @9 :Float32; aTargetMinDEPRECATED @10 :Float32;
  aTargetMaxDEPRECATED @11 :Float32; jerkFactorDEPRECATED @12 :Float32; angleSteersDEPRECATED @13 :Float32;
  hudLeadDEPRECATED @14 :Int32; cumLagMs @15 :Float32; canMonoTimeDEPRECATED @16 :UInt64;
  radarStateMonoTimeDEPRECATED @17 :UInt64; mdMonoTimeDEPRECATED @18 :UInt64; enabled @19 :Bool;
  steerOverrideDEPRECATED @20 :Bool; canMonoTimesDEPRECATED @21 :List(UInt64); vCruise @22 :Float32;
  rearViewCamDEPRECATED @23 :Bool; alertText1 @24 :Text; alertText2 @25 :Text; awarenessStatusDEPRECATED @26 :Float32;
  angleModelBiasDEPRECATED @27 :Float32; longitudinalPlanMonoTime @28 :UInt64;
  steeringAngleDesiredDegDEPRECATED @29 :Float32; longControlState @30 :Car.CarControl.Actuators.LongControlState;
  state @31 :SelfdriveState.OpenpilotState; vEgoRawDEPRECATED @32 :Float32; ufAccelCmd @33 :Float32;
  ufSteerDEPRECATED @34 :Float32; aTarget @35 :Float32; active @36 :Bool; curvature @37 :Float32;
  alertStatus @38 :SelfdriveState.AlertStatus; alertSize @39 :SelfdriveState.AlertSize;
  gpsPlannerActiveDEPRECATED @40 :Bool; engageable @41 :Bool; alertBlinkingRate @42 :Float32;
  driverMonitoringOnDEPRECATED @43 :Bool; alertType @44 :Text; alertSoundDEPRECATED @45 :Text;
  vCurvatureDEPRECATED @46 :Float32; decelForTurnDEPRECATED @47 :Bool; startMonoTime @48 :UInt64;
  mapValidDEPRECATED @49 :Bool; lateralPlanMonoTime @50 :UInt64; forceDecel @51 :Bool;
  decelForModelDEPRECATED @54 :Bool; alertSound @56 :Car.CarControl.HUDControl.AudibleAlert;
  canErrorCounterDEPRECATED @57 :UInt32; desiredCurvature @61 :Float32; desiredCurvatureRateDEPRECATED @62 :Float32;
  vCruiseCluster @63 :Float32; experimentalMode @64 :Bool; personality @66 :LongitudinalPersonality;
  lateralControlState :union {
    indiState @52 :AnyPointer; pidState @53 :LateralPIDState; lqrStateDEPRECATED @55 :AnyPointer;
    angleState @58 :LateralAngleState; debugState @59 :LateralDebugState; torqueState @60 :LateralTorqueState;
    curvatureStateDEPRECATED @65 :LateralCurvatureState;
  }
  struct LateralPIDState {
    active @0 :Bool; steeringAngleDeg @1 :Float32; steeringRateDeg @2 :Float32; angleError @3 :Float32; p @4 :Float32;
    i @5 :Float32; f @6 :Float32; output @7 :Float32; saturated @8 :Bool; steeringAngleDesiredDeg @9 :Float32;
  }
  struct LateralTorqueState {
    active @0 :Bool; error @1 :Float32; p @2 :Float32; i @3 :Float32; d @4 :Float32; f @5 :Float32;
    output @6 :Float32; saturated @7 :Bool; errorRate @8 :Float32; actualLateralAccel @9 :Float32;
    desiredLateralAccel @10 :Float32;
  }
  struct LateralAngleState {
    active @0 :Bool; steeringAngleDeg @1 :Float32; output @2 :Float32; saturated @3 :Bool;
    steeringAngleDesiredDeg @4 :Float32;
  }
  struct LateralCurvatureState {
    active @0 :Bool; actualCurvature @1 :Float32; desiredCurvature @2 :Float32; error @3 :Float32; p @4 :Float32;
    i @5 :Float32; f @6 :Float32; output @7 :Float32; saturated @8 :Bool;
  }
  struct LateralDebugState { active @0 :Bool; steeringAngleDeg @1 :Float32; output @2 :Float32; saturated @3 :Bool; }
}

struct XYZTData @0xc3cbae1fd505ae80 {
  x @0 :List(Float32); y @1 :List(Float32); z @2 :List(Float32); t @3 :List(Float32); xStd @4 :List(Float32);
  yStd @5 :List(Float32); zStd @6 :List(Float32);
}

struct ModelDataV2 {
  frameId @0 :UInt32; frameAge @1 :UInt32; frameDropPerc @2 :Float32; timestampEof @3 :UInt64; position @4 :XYZTData;
  orientation @5 :XYZTData; velocity @6 :XYZTData; orientationRate @7 :XYZTData; laneLines @8 :List(XYZTData);
  laneLineProbs @9 :List(Float32); roadEdges @10 :List(XYZTData); leads @11 :List(LeadDataV2); meta @12 :MetaData;
  laneLineStds @13 :List(Float32); roadEdgeStds @14 :List(Float32); modelExecutionTime @15 :Float32;
  rawPredictions @16 :Data; gpuExecutionTime @17 :Float32; leadsV3 @18 :List(LeadDataV3); acceleration @19 :XYZTData;
  frameIdExtra @20 :UInt32; temporalPose @21 :Pose; navEnabledDEPRECATED @22 :Bool; confidence @23 :ConfidenceClass;
  locationMonoTimeDEPRECATED @24 :UInt64; lateralPlannerSolutionDEPRECATED @25 :AnyPointer; action @26 :Action;
  struct LeadDataV2 { prob @0 :Float32; t @1 :Float32; xyva @2 :List(Float32); xyvaStd @3 :List(Float32); }
  struct LeadDataV3 {
    prob @0 :Float32; probTime @1 :Float32; t @2 :List(Float32); x @3 :List(Float32); xStd @4 :List(Float32);
    y @5 :List(Float32); yStd @6 :List(Float32); v @7 :List(Float32); vStd @8 :List(Float32); a @9 :List(Float32);
    aStd @10 :List(Float32);
  }
  struct MetaData {
    engagedProb @0 :Float32; desirePrediction @1 :List(Float32); brakeDisengageProbDEPRECATED @2 :Float32;
    gasDisengageProbDEPRECATED @3 :Float32; steerOverrideProbDEPRECATED @4 :Float32; desireState @5 :List(Float32);
    disengagePredictions @6 :DisengagePredictions; hardBrakePredicted @7 :Bool; laneChangeState @8 :LaneChangeState;
    laneChangeDirection @9 :LaneChangeDirection;
  }
  enum ConfidenceClass { red @0; yellow @1; green @2; }
  struct DisengagePredictions {
    t @0 :List(Float32); brakeDisengageProbs @1 :List(Float32); gasDisengageProbs @2 :List(Float32);
    steerOverrideProbs @3 :List(Float32); brake3MetersPerSecondSquaredProbs @4 :List(Float32);
    brake4MetersPerSecondSquaredProbs @5 :List(Float32); brake5MetersPerSecondSquaredProbs @6 :List(Float32);
    gasPressProbs @7 :List(Float32); brakePressProbs @8 :List(Float32);
  }
  struct Pose {
    trans @0 :List(Float32); rot @1 :List(Float32); transStd @2 :List(Float32); rotStd @3 :List(Float32);
  }
  struct Action { desiredCurvature @0 :Float32; desiredAcceleration @1 :Float32; shouldStop @2 :Bool; }
}

struct EncodeIndex {
  frameId @0 :UInt32; type @1 :Type; encodeId @2 :UInt32; segmentNum @3 :Int32; segmentId @4 :UInt32;
  segmentIdEncode @5 :UInt32; timestampSof @6 :UInt64; timestampEof @7 :UInt64; flags @8 :UInt32; len @9 :UInt32;
  enum Type {
    bigBoxLossless @0; fullHEVC @1; bigBoxHEVCDEPRECATED @2; chffrAndroidH264DEPRECATED @3;
    fullLosslessClipDEPRECATED @4; frontDEPRECATED @5; qcameraH264 @6; livestreamH264 @7;
  }
}

struct LongitudinalPlan @0xe00b5b3eba12876c {
  lateralValidDEPRECATED @0 :Bool; dPolyDEPRECATED @1 :List(Float32); longitudinalValidDEPRECATED @2 :Bool;
  vTargetDEPRECATED @3 :Float32; aTargetMinDEPRECATED @4 :Float32; aTargetMaxDEPRECATED @5 :Float32;
  jerkFactorDEPRECATED @6 :Float32; hasLead @7 :Bool; fcw @8 :Bool; modelMonoTime @9 :UInt64;
  radarStateMonoTimeDEPRECATED @10 :UInt64; laneWidthDEPRECATED @11 :Float32; gpsTrajectoryDEPRECATED @12 :AnyPointer;
  eventsDEPRECATED @13 :List(Car.CarEvent); vTargetFutureDEPRECATED @14 :Float32;
  longitudinalPlanSource @15 :LongitudinalPlanSource; vCruiseDEPRECATED @16 :Float32; aCruiseDEPRECATED @17 :Float32;
  aTargetDEPRECATED @18 :Float32; gpsPlannerActiveDEPRECATED @19 :Bool; vMaxDEPRECATED @20 :Float32;
  vCurvatureDEPRECATED @21 :Float32; decelForTurnDEPRECATED @22 :Bool; hasLeftLaneDEPRECATED @23 :Bool;
  hasRightLaneDEPRECATED @24 :Bool; mapValidDEPRECATED @25 :Bool; vStartDEPRECATED @26 :Float32;
  aStartDEPRECATED @27 :Float32; radarValidDEPRECATED @28 :Bool; processingDelay @29 :Float32;
  radarCanErrorDEPRECATED @30 :Bool; commIssueDEPRECATED @31 :Bool; accels @32 :List(Float32);
  speeds @33 :List(Float32); jerks @34 :List(Float32); solverExecutionTime @35 :Float32;
  personalityDEPRECATED @36 :LongitudinalPersonality; shouldStop @37 :Bool; allowThrottle @38 :Bool;
  allowBrake @39 :Bool;
  enum LongitudinalPlanSource { cruise @0; lead0 @1; lead1 @2; lead2 @3; e2e @4; }
}

struct LateralPlan @0xe1e9318e2ae8b51e {
  laneWidthDEPRECATED @0 :Float32; dPolyDEPRECATED @1 :List(Float32); cPolyDEPRECATED @2 :List(Float32);
  cProbDEPRECATED @3 :Float32; lPolyDEPRECATED @4 :List(Float32); lProbDEPRECATED @5 :Float32;
  rPolyDEPRECATED @6 :List(Float32); rProbDEPRECATED @7 :Float32; steeringAngleDegDEPRECATED @8 :Float32;
  mpcSolutionValid @9 :Bool; paramsValidDEPRECATED @10 :Bool; angleOffsetDegDEPRECATED @11 :Float32;
  modelValidDEPRECATED @12 :Bool; steeringRateDegDEPRECATED @13 :Float32; sensorValidDEPRECATED @14 :Bool;
  commIssueDEPRECATED @15 :Bool; posenetValidDEPRECATED @16 :Bool; desire @17 :Desire;
  laneChangeState @18 :LaneChangeState; laneChangeDirection @19 :LaneChangeDirection; dPathPoints @20 :List(Float32);
  dProbDEPRECATED @21 :Float32; curvatureDEPRECATED @22 :Float32; curvatureRateDEPRECATED @23 :Float32;
  rawCurvatureDEPRECATED @24 :Float32; rawCurvatureRateDEPRECATED @25 :Float32; psis @26 :List(Float32);
  curvatures @27 :List(Float32); curvatureRates @28 :List(Float32); useLaneLines @29 :Bool;
  solverExecutionTime @30 :Float32; modelMonoTime @31 :UInt64; solverCost @32 :Float32; solverState @33 :AnyPointer;
}

struct LiveLocationKalman {
  positionECEF @0 :Measurement; positionGeodetic @1 :Measurement; velocityECEF @2 :Measurement;
  velocityNED @3 :Measurement; velocityDevice @4 :Measurement; accelerationDevice @5 :Measurement;
  orientationECEF @6 :Measurement; orientationNED @7 :Measurement; angularVelocityDevice @8 :Measurement;
  calibratedOrientationNED @9 :Measurement; velocityCalibrated @10 :Measurement;
  accelerationCalibrated @11 :Measurement; angularVelocityCalibrated @12 :Measurement; gpsWeek @13 :Int32;
  gpsTimeOfWeek @14 :Float64; status @15 :Status; unixTimestampMillis @16 :Int64; inputsOK @17 :Bool = true;
  posenetOK @18 :Bool = true; gpsOK @19 :Bool = true; calibratedOrientationECEF @20 :Measurement;
  sensorsOK @21 :Bool = true; deviceStable @22 :Bool = true; timeSinceReset @23 :Float64; excessiveResets @24 :Bool;
  timeToFirstFix @25 :Float32; filterState @26 :Measurement;
  enum Status { uninitialized @0; uncalibrated @1; valid @2; }
  struct Measurement { value @0 :List(Float64); std @1 :List(Float64); valid @2 :Bool; }
}

struct Clocks {
  bootTimeNanosDEPRECATED @0 :UInt64; monotonicNanosDEPRECATED @1 :UInt64; monotonicRawNanosDEPRECATD @2 :UInt64;
  wallTimeNanos @3 :UInt64; modemUptimeMillisDEPRECATED @4 :UInt64;
}

struct DriverStateV2 {
  frameId @0 :UInt32; modelExecutionTime @1 :Float32; dspExecutionTime @2 :Float32; rawPredictions @3 :Data;
  poorVisionProb @4 :Float32; wheelOnRightProb @5 :Float32; leftDriverData @6 :DriverData;
  rightDriverData @7 :DriverData;
  struct DriverData {
    faceOrientation @0 :List(Float32); faceOrientationStd @1 :List(Float32); facePosition @2 :List(Float32);
    facePositionStd @3 :List(Float32); faceProb @4 :Float32; leftEyeProb @5 :Float32; rightEyeProb @6 :Float32;
    leftBlinkProb @7 :Float32; rightBlinkProb @8 :Float32; sunglassesProb @9 :Float32; occludedProb @10 :Float32;
    readyProb @11 :List(Float32); notReadyProb @12 :List(Float32); phoneProb @13 :Float32;
  }
}

struct DriverMonitoringState @0xb83cda094a1da284 {
  eventsDEPRECATED @0 :List(Car.CarEvent); faceDetected @1 :Bool; isDistracted @2 :Bool; awarenessStatus @3 :Float32;
  isRHD @4 :Bool;
  rhdCheckedDEPRECATED @5 :Bool; posePitchOffset @6 :Float32; posePitchValidCount @7 :UInt32;
  poseYawOffset @8 :Float32; poseYawValidCount @9 :UInt32; stepChange @10 :Float32; awarenessActive @11 :Float32;
  awarenessPassive @12 :Float32; isLowStd @13 :Bool; hiStdCount @14 :UInt32; isPreviewDEPRECATED @15 :Bool;
  isActiveMode @16 :Bool; distractedType @17 :UInt32; events @18 :List(OnroadEvent);
}

struct LiveParametersData {
  valid @0 :Bool; gyroBias @1 :Float32; angleOffsetDeg @2 :Float32; angleOffsetAverageDeg @3 :Float32;
  stiffnessFactor @4 :Float32; steerRatio @5 :Float32; sensorValid @6 :Bool; yawRateDEPRECATED @7 :Float32;
  posenetSpeed @8 :Float32; posenetValid @9 :Bool; angleOffsetFastStd @10 :Float32;
  angleOffsetAverageStd @11 :Float32; stiffnessFactorStd @12 :Float32; steerRatioStd @13 :Float32; roll @14 :Float32;
  filterState @15 :LiveLocationKalman.Measurement;
}

struct LiveTorqueParametersData {
  liveValid @0 :Bool; latAccelFactorRaw @1 :Float32; latAccelOffsetRaw @2 :Float32;
  frictionCoefficientRaw @3 :Float32; latAccelFactorFiltered @4 :Float32; latAccelOffsetFiltered @5 :Float32;
  frictionCoefficientFiltered @6 :Float32; totalBucketPoints @7 :Float32; decay @8 :Float32; maxResets @9 :Float32;
  points @10 :List(List(Float32)); version @11 :Int32; useParams @12 :Bool;
}

struct CameraOdometry {
  trans @0 :List(Float32); rot @1 :List(Float32); transStd @2 :List(Float32); rotStd @3 :List(Float32);
  frameId @4 :UInt32; timestampEof @5 :UInt64; wideFromDeviceEuler @6 :List(Float32);
  wideFromDeviceEulerStd @7 :List(Float32); roadTransformTrans @8 :List(Float32);
  roadTransformTransStd @9 :List(Float32);
}

struct Sentinel {
  type @0 :SentinelType; signal @1 :Int32;
  enum SentinelType { endOfSegment @0; endOfRoute @1; startOfSegment @2; startOfRoute @3; }
}

struct Event {
  logMonoTime @0 :UInt64; valid @67 :Bool = true;
  union {
    initData @1 :InitData; roadCameraState @2 :FrameData; gpsNMEA @3 :AnyPointer;
    sensorEventDEPRECATED @4 :SensorEventData; can @5 :List(CanData); deviceState @6 :DeviceState;
    controlsState @7 :ControlsState; liveEventDEPRECATED @8 :AnyPointer; model @9 :AnyPointer;
    featuresDEPRECATED @10 :AnyPointer; sensorEventsDEPRECATED @11 :List(SensorEventData);
    pandaStateDEPRECATED @12 :PandaState; radarState @13 :RadarState; liveUIDEPRECATED @14 :AnyPointer;
    roadEncodeIdx @15 :EncodeIndex; liveTracksDEPRECATED @16 :AnyPointer; sendcan @17 :List(CanData);
    logMessage @18 :Text; liveCalibration @19 :LiveCalibrationData; androidLog @20 :AnyPointer;
    gpsLocation @21 :GpsLocationData; carState @22 :Car.CarState; carControl @23 :Car.CarControl;
    longitudinalPlan @24 :LongitudinalPlan; liveLocationDEPRECATED @25 :AnyPointer;
    ethernetDataDEPRECATED @26 :AnyPointer; navUpdateDEPRECATED @27 :AnyPointer; cellInfoDEPRECATED @28 :AnyPointer;
    wifiScanDEPRECATED @29 :AnyPointer; androidGnssDEPRECATED @30 :AnyPointer; qcomGnss @31 :AnyPointer;
    lidarPtsDEPRECATED @32 :AnyPointer; procLog @33 :AnyPointer; ubloxGnss @34 :AnyPointer; clocks @35 :Clocks;
    liveMpcDEPRECATED @36 :AnyPointer; liveLongitudinalMpcDEPRECATED @37 :AnyPointer;
    navStatusDEPRECATED @38 :AnyPointer; ubloxRaw @39 :Data; gpsPlannerPointsDEPRECATED @40 :AnyPointer;
    gpsPlannerPlanDEPRECATED @41 :AnyPointer; applanixRawDEPRECATED @42 :Data;
    trafficEventsDEPRECATED @43 :AnyPointer; liveLocationTimingDEPRECATED @44 :AnyPointer;
    orbslamCorrectionDEPRECATED @45 :AnyPointer; liveLocationCorrectedDEPRECATED @46 :AnyPointer;
    orbObservationDEPRECATED @47 :AnyPointer; gpsLocationExternal @48 :GpsLocationData;
    locationDEPRECATED @49 :AnyPointer; uiNavigationEventDEPRECATED @50 :AnyPointer;
    liveLocationKalmanLegacyDEPRECATED @51 :AnyPointer; testJoystick @52 :AnyPointer;
    orbOdometryDEPRECATED @53 :AnyPointer; orbFeaturesDEPRECATED @54 :AnyPointer;
    applanixLocationDEPRECATED @55 :AnyPointer; orbKeyFrameDEPRECATED @56 :AnyPointer;
    uiLayoutStateDEPRECATED @57 :AnyPointer; orbFeaturesSummaryDEPRECATED @58 :AnyPointer;
    driverStateDEPRECATED @59 :AnyPointer; boot @60 :AnyPointer; liveParameters @61 :LiveParametersData;
    liveMapDataDEPRECATED @62 :AnyPointer; cameraOdometry @63 :CameraOdometry; lateralPlanDEPRECATED @64 :LateralPlan;
    kalmanOdometryDEPRECATED @65 :AnyPointer; thumbnail @66 :Thumbnail; onroadEventsDEPRECATED @68 :List(Car.CarEvent);
    carParams @69 :Car.CarParams; driverCameraState @70 :FrameData; driverMonitoringState @71 :DriverMonitoringState;
    liveLocationKalman @72 :LiveLocationKalman; sentinel @73 :Sentinel; wideRoadCameraState @74 :FrameData;
    modelV2 @75 :ModelDataV2; driverEncodeIdx @76 :EncodeIndex; wideRoadEncodeIdx @77 :EncodeIndex;
    managerState @78 :AnyPointer; uploaderState @79 :AnyPointer; peripheralState @80 :AnyPointer;
    pandaStates @81 :List(PandaState); navInstruction @82 :AnyPointer; navRoute @83 :AnyPointer;
    navThumbnail @84 :Thumbnail; errorLogMessage @85 :Text; roadEncodeData @86 :AnyPointer;
    driverEncodeData @87 :AnyPointer; wideRoadEncodeData @88 :AnyPointer; qRoadEncodeData @89 :AnyPointer;
    qRoadEncodeIdx @90 :EncodeIndex; gnssMeasurements @91 :AnyPointer; driverStateV2 @92 :DriverStateV2;
    userFlag @93 :AnyPointer; liveTorqueParameters @94 :LiveTorqueParametersData; magnetometer @95 :SensorEventData;
    lightSensor @96 :SensorEventData; temperatureSensor @97 :SensorEventData; accelerometer @98 :SensorEventData;
    gyroscope @99 :SensorEventData; gyroscope2 @100 :SensorEventData; accelerometer2 @101 :SensorEventData;
    uiDebug @102 :AnyPointer; microphone @103 :AnyPointer; navModelDEPRECATED @104 :AnyPointer;
    mapRenderState @105 :AnyPointer; uiPlan @106 :AnyPointer; customReserved0 @107 :AnyPointer;
    customReserved1 @108 :AnyPointer; customReserved2 @109 :AnyPointer; customReserved3 @110 :AnyPointer;
    customReserved4 @111 :AnyPointer; customReserved5 @112 :AnyPointer; customReserved6 @113 :AnyPointer;
    customReserved7 @114 :AnyPointer; customReserved8 @115 :AnyPointer; customReserved9 @116 :AnyPointer;
    livestreamRoadEncodeIdx @117 :EncodeIndex; livestreamWideRoadEncodeIdx @118 :EncodeIndex;
    livestreamDriverEncodeIdx @119 :EncodeIndex; livestreamRoadEncodeData @120 :AnyPointer;
    livestreamWideRoadEncodeData @121 :AnyPointer; livestreamDriverEncodeData @122 :AnyPointer;
    temperatureSensor2 @123 :SensorEventData; customReservedRawData0 @124 :Data; customReservedRawData1 @125 :Data;
    customReservedRawData2 @126 :Data; carOutput @127 :Car.CarOutput; drivingModelData @128 :DrivingModelData;
    livePose @129 :LivePose; selfdriveState @130 :SelfdriveState; liveTracks @131 :Car.RadarData;
    driverAssistance @132 :DriverAssistance; alertDebug @133 :AnyPointer; onroadEvents @134 :List(OnroadEvent);
    touch @135 :AnyPointer; customReserved10 @136 :AnyPointer; customReserved11 @137 :AnyPointer;
    customReserved12 @138 :AnyPointer; customReserved13 @139 :AnyPointer; customReserved14 @140 :AnyPointer;
    customReserved15 @141 :AnyPointer; customReserved16 @142 :AnyPointer; customReserved17 @143 :AnyPointer;
    customReserved18 @144 :AnyPointer; customReserved19 @145 :AnyPointer; liveDelay @146 :LiveDelayData;
  }
}
